# SPDX-License-Identifier: Apache-2.0
"""Arrays in one piece of memory."""

from __future__ import annotations

import numpy as np

from mx_core import dtypes
from mx_core.context import cpu
from mx_core.kernels import TensorSpec
from mx_ndarray import autograd
from mx_symbol import sym
from mx_symbol.memory.placement import ALIGNMENT
from mx_symbol.runtime.joint_arrays import arrays_together

SHAPES = {"a": (3, 5), "b": (7,), "c": (2, 1, 4), "empty": (0, 3), "scalar": ()}


def made(*kinds):
    entries = {
        sym.Variable(f"{name}_{kind}").entries[0]: TensorSpec(shape, dtypes.code(kind))
        for kind in kinds
        for name, shape in SHAPES.items()
    }
    with autograd.record():
        arrays = arrays_together(entries, cpu())
    return entries, arrays


def test_they_have_the_shapes_and_types_that_are_asked_for_in_order():
    entries, arrays = made("float32", "int8")
    assert list(arrays) == list(entries)
    for entry, spec in entries.items():
        assert (arrays[entry].shape, dtypes.code(arrays[entry].dtype)) == (spec.shape, spec.dtype)


def test_they_do_not_overlap_and_are_aligned():
    _, arrays = made("float32", "bfloat16", "int8")
    for i, array in enumerate(arrays.values()):
        array[...] = i
    for i, array in enumerate(arrays.values()):
        np.testing.assert_array_equal(array.astype("float32").asnumpy(), np.full(array.shape, i))
    filled = [array for array in arrays.values() if array.size]
    assert not any(
        np.from_dlpack(array.astype("float32", copy=False)).ctypes.data % ALIGNMENT for array in filled
    )
