# SPDX-License-Identifier: Apache-2.0
"""Objects whose native `__init__` stores its arguments in slots."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import weakref
from dataclasses import FrozenInstanceError, replace

import pytest

from mx_core import _native
from mx_core.kernels import Prepared, TensorSpec


def test_arguments_may_be_named_and_have_defaults() -> None:
    given = TensorSpec((2, 3), dtype=1)
    assert (given.shape, given.dtype, given.layout) == ((2, 3), 1, 0)
    assert given == TensorSpec(layout=0, dtype=1, shape=(2, 3)) != TensorSpec((2, 3), 1, 5)
    assert repr(given) == "TensorSpec(shape=(2, 3), dtype=1, layout=0)"
    assert list(inspect.signature(TensorSpec).parameters) == ["shape", "dtype", "layout"]
    assert Prepared("loop", "cpu") == Prepared("loop", "cpu", None, None)


def test_they_are_like_those_of_any_frozen_dataclass() -> None:
    given = TensorSpec((2, 3), 1)
    assert replace(given, dtype=4) == TensorSpec((2, 3), 4)
    assert pickle.loads(pickle.dumps(given)) == copy.copy(given) == given
    assert hash(given) == hash(TensorSpec((2, 3), 1))
    with pytest.raises(FrozenInstanceError):
        given.dtype = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        (((2,),), {}, "missing required argument: 'dtype'"),
        (((2,), 1, 0, 7), {}, "takes 3 arguments, got 4"),
        (((2,), 1), {"shape": (3,)}, "multiple values for argument 'shape'"),
        (((2,), 1), {"kind": 3}, "unexpected keyword argument 'kind'"),
    ],
)
def test_wrong_arguments(args: tuple[object, ...], named: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=rf"TensorSpec.__init__\(\).*{message}"):
        TensorSpec(*args, **named)  # type: ignore[arg-type]


def test_it_is_of_one_class() -> None:
    with pytest.raises(TypeError, match="an object of its class"):
        TensorSpec.__init__(Prepared("loop", "cpu"), (2,), 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an object of its class"):
        TensorSpec.__init__()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no slot 'real'"):
        _native.slot_initializer(int, ("real",), ())


def test_such_a_class_can_go() -> None:
    class Pair:
        __slots__ = ("__weakref__", "first", "second")

    Pair.__init__ = _native.slot_initializer(Pair, ("first", "second"), ())  # type: ignore[method-assign]
    made = Pair(1, second=[2])  # type: ignore[call-arg]
    assert (made.first, made.second) == (1, [2])  # type: ignore[attr-defined]
    gone = weakref.ref(Pair)
    del Pair, made
    gc.collect()
    assert gone() is None
