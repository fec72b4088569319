# SPDX-License-Identifier: Apache-2.0
"""Convolution, deconvolution, fused layers, deformable convolution."""
