# SPDX-License-Identifier: Apache-2.0
"""The shape of an array as an array: shape_array, size_array."""

from __future__ import annotations

from math import prod

import numpy as np

from mx_core.operator import Arrays, NoParams, Operator, ReferenceContext, Shapes


class ShapeArray(Operator):
    """The shape, as a vector of int64."""

    name = "shape_array"
    shape_only = ("data",)
    fixed_types = {"output": "int64"}
    differentiable = False

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        data = s.get("data")
        if data is not None:
            s.assign("output", (len(data),))

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (np.array(inputs[0].shape, np.int64),)


class SizeArray(Operator):
    """The number of elements, as a vector of one int64."""

    name = "size_array"
    shape_only = ("data",)
    fixed_types = {"output": "int64"}
    differentiable = False

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        s.assign("output", (1,))

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (np.array([prod(inputs[0].shape)], np.int64),)
