# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest

from mx_core import dtypes
from mx_core.errors import DTypeError

FLAGS = {
    "float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6, "bool": 7,
    "int16": 8, "uint16": 9, "uint32": 10, "uint64": 11, "bfloat16": 12, "complex64": 13, "complex128": 14,
}  # fmt: skip


@pytest.mark.parametrize(("name", "flag"), FLAGS.items())
def test_names_flags_and_numpy_types_translate(name, flag):
    numpy_type = np.dtype(getattr(ml_dtypes, name, None) or name)
    assert dtypes.code(name) == dtypes.code(flag) == dtypes.code(numpy_type) == flag
    assert dtypes.code(numpy_type.type) == flag
    assert dtypes.name(flag) == name
    assert dtypes.itemsize(flag) == numpy_type.itemsize
    assert dtypes.numpy_dtype(flag) == numpy_type


def test_python_types():
    assert dtypes.code(float) == dtypes.code("float64")
    assert dtypes.code(bool) == dtypes.code("bool")


@pytest.mark.parametrize("wrong", ["float31", 15, -1, True, object(), "", np.dtype("M8[s]"), None.__class__])
def test_unknown_types_are_named(wrong):
    with pytest.raises(DTypeError, match="unknown element type"):
        dtypes.code(wrong)
    with pytest.raises(DTypeError, match=r"^\[zeros\] dtype: unknown element type .*; known: float32, "):
        dtypes.code(wrong, "[zeros] dtype")


def test_the_nearest_type_is_named():
    with pytest.raises(DTypeError, match=r"'flaot32'; known: .*complex128. Did you mean 'float32'\?$"):
        dtypes.code("flaot32")


def test_unknown_flags():
    assert dtypes.name(99) == "unknown(99)"
    with pytest.raises(DTypeError, match="99"):
        dtypes.numpy_dtype(99)


def test_names_of_numpy():
    assert dtypes.code("f4") == dtypes.code("<f4") == dtypes.code("float32")
    for wrong in ("(", "i4,f4", "M8"):
        with pytest.raises(DTypeError, match="unknown element type"):
            dtypes.code(wrong)
