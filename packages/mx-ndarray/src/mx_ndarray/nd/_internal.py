# SPDX-License-Identifier: Apache-2.0
"""Operators whose names begin with an underscore: what Python's operators are made of."""

from mx_ndarray.operator_functions import namespace

__getattr__, __dir__ = namespace(__name__, internal=True)
