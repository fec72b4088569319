# SPDX-License-Identifier: Apache-2.0
"""Declarations of operators: parameters, inference, gradients, NumPy references.

Operators are found through `mx_core.operators`; nothing here needs to be imported by name.
"""

__version__ = "0.1.0"
