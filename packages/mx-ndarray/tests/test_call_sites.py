# SPDX-License-Identifier: Apache-2.0
"""What generated functions remember of their calls: equal calls share parameters, others do not."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from mx_core.context import Context, cpu
from mx_core.errors import MXNetError
from mx_ndarray import autograd, nd
from mx_ndarray.operator_functions import function


def twice(**arguments: object) -> list[float]:
    """The first value of `_full` of shape (1,), from the call that is parsed and from the remembered one."""
    make = function("_full")
    return [float(make(shape=(1,), **arguments).asnumpy()[0]) for _ in range(2)]


def test_signs_of_zero_are_different_scalars() -> None:
    divide, x = function("_div_scalar"), nd.ones((1,))
    assert divide(x, scalar=0.0).asnumpy()[0] == np.inf
    assert divide(x, scalar=-0.0).asnumpy()[0] == -np.inf
    assert divide(x, scalar=0.0).asnumpy()[0] == np.inf


@pytest.mark.parametrize("recording", [False, True])
def test_signs_of_zero_are_different_operands(recording: bool) -> None:
    x = nd.ones((1,))
    x.attach_grad()
    with autograd.record() if recording else autograd.pause():
        quotients = [(x / zero).asnumpy()[0] for zero in (0.0, -0.0, 0.0)]
    assert quotients == [np.inf, -np.inf, np.inf]


def test_numbers_whose_bits_are_alike_but_for_a_constant_are_different() -> None:
    bits = struct.unpack("<Q", struct.pack("<d", 3.0))[0] ^ 0x5BD1E995
    twin = struct.unpack("<d", struct.pack("<Q", bits))[0]
    y = nd.ones((1,), dtype="float64")
    y.attach_grad()
    with autograd.record():
        first, second = y * 3, y * twin
    assert first.asnumpy()[0] == 3.0
    assert second.asnumpy()[0] == twin


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("number", [2**53 + 1, 2**62 + 1])
def test_large_integers_are_exact_operands(dtype: str, number: int) -> None:
    x = nd.zeros((2, 2), dtype=dtype)
    assert (x + number).asnumpy().tolist() == [[number] * 2] * 2
    assert (number - x).asnumpy().tolist() == [[number] * 2] * 2
    x += number
    assert x.asnumpy().tolist() == [[number] * 2] * 2
    assert (x == number).asnumpy().all()
    assert not (x == number - 1).asnumpy().any()


def test_a_large_unsigned_integer_is_an_exact_operand() -> None:
    assert (nd.zeros((1,), dtype="uint64") + (2**64 - 1)).asnumpy()[0] == 2**64 - 1


def test_types_of_equal_numbers_are_different() -> None:
    slices = function("slice_axis")
    x = nd.array([[1, 2], [3, 4]])
    for _ in range(2):
        assert slices(x, axis=1, begin=0, end=1).shape == (2, 1)
        assert slices(x, axis=True, begin=0, end=1).shape == (2, 1)
        assert slices(x, axis="1", begin=0, end=1).shape == (2, 1)


def test_a_list_that_changes_is_another_argument() -> None:
    shape, axes = [2, 3], [1, 0]
    x, transpose = nd.zeros((2, 3)), function("transpose")
    assert nd.zeros(shape).shape == (2, 3)
    assert transpose(x, axes=axes).shape == (3, 2)
    shape[0], axes[:] = 5, [0, 1]
    assert nd.zeros(shape).shape == (5, 3)
    assert transpose(x, axes=axes).shape == (2, 3)


def test_keyword_names_count_by_their_text() -> None:
    name = "".join(["sca", "lar"])  # not the interned string
    for _ in range(2):
        assert function("_plus_scalar")(nd.ones((1,)), **{name: 2.0}).asnumpy()[0] == 3.0


def test_look_ups_run_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, other: object = None) -> bool:
        raise KeyboardInterrupt

    with cpu(0):
        nd.zeros((3,), ctx=cpu(0))
        monkeypatch.setattr(Context, "__eq__", fail)
        monkeypatch.setattr(Context, "__hash__", fail)
        assert nd.zeros((3,), ctx=cpu(0)).shape == (3,)


def test_a_class_called_context_is_no_context() -> None:
    made = type("Context", (), {"__eq__": lambda self, other: True, "__hash__": None})
    nd.zeros((3,), ctx=cpu(0))
    with pytest.raises(MXNetError):
        function("_zeros")(shape=(3,), ctx=made())


def test_more_calls_than_places_stay_right() -> None:
    for _ in range(2):
        for n in range(1, 1500):
            assert function("_full")(shape=(n % 7 + 1,), value=float(n)).shape == (n % 7 + 1,)


def test_values_that_are_not_remembered_are_parsed() -> None:
    assert twice(value=np.float32(2.0)) == [2.0, 2.0]
    assert twice(value=10**300) == [np.inf, np.inf]
    assert twice(value=1.0, dtype=np.dtype("float64")) == [1.0, 1.0]
