# SPDX-License-Identifier: Apache-2.0
"""Asynchronous dependency engine with a C++ core."""

__version__ = "0.1.0"
