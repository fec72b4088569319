# SPDX-License-Identifier: Apache-2.0
"""Kernels made of vector loops: expressions, reductions, data movement, random, optimizers."""
