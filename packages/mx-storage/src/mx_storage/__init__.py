# SPDX-License-Identifier: Apache-2.0
"""Pooled, aligned memory and random resources with a C++ core."""

__version__ = "0.1.0"
