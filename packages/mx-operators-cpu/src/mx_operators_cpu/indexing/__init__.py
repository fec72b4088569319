# SPDX-License-Identifier: Apache-2.0
"""Gather, scatter, strided copies, padding, sequences, fills."""
