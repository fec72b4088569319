# SPDX-License-Identifier: Apache-2.0
"""Symbolic graphs, memory planning and the executor."""

__version__ = "0.1.0"
