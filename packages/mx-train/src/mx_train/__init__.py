# SPDX-License-Identifier: Apache-2.0
"""Module, optimizers, metrics, initializers, callbacks."""

__version__ = "0.1.0"
