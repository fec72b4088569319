# SPDX-License-Identifier: Apache-2.0
"""What the operators mean: parameters, inference, gradients, NumPy references."""

__version__ = "0.1.0"
