# SPDX-License-Identifier: Apache-2.0
"""Operator functions only, without the functions written in Python."""

from mx_ndarray.custom import Custom as Custom
from mx_ndarray.operator_functions import namespace

__getattr__, __dir__ = namespace(__name__, public=True)
