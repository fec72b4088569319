# SPDX-License-Identifier: Apache-2.0
"""Distributed parameter stores over MPI."""

__version__ = "0.1.0"
