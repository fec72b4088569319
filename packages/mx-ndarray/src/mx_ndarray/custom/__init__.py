# SPDX-License-Identifier: Apache-2.0
"""Operators written in Python over NDArrays: what `mx.operator` is."""

from mx_ndarray.custom.imperative import Custom as Custom
from mx_ndarray.custom.property import CustomOp as CustomOp
from mx_ndarray.custom.property import CustomOpProp as CustomOpProp
from mx_ndarray.custom.property import get_all_registered_operators as get_all_registered_operators
from mx_ndarray.custom.property import register as register
