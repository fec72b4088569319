# SPDX-License-Identifier: Apache-2.0
"""Elementwise expressions, PReLU, casts."""
