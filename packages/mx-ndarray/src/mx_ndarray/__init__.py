# SPDX-License-Identifier: Apache-2.0
"""Asynchronous NDArray, imperative invocation and autograd."""

__version__ = "0.1.0"
