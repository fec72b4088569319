# SPDX-License-Identifier: Apache-2.0
"""Attention: interleaved products and the fused operator."""
