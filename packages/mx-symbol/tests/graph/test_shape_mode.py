# SPDX-License-Identifier: Apache-2.0
"""NumPy's shapes: 0 and () are known, −1 and None are not. Results recorded from MXNet 1.9.1."""

from __future__ import annotations

import threading

import pytest

from mx_core.context import cpu
from mx_core.errors import ShapeError
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.graph.shape_mode import is_np_shape, np_shape, set_np_shape, use_np_shape

A, B = sym.Variable("a"), sym.Variable("b")
LAYER = sym.FullyConnected(A, num_hidden=2, name="f", flatten=False)


def test_empty_and_scalar_shapes_are_known() -> None:
    with np_shape():
        assert (A + B).infer_shape(a=(2, 0), b=(2, 0)) == ([(2, 0)] * 2, [(2, 0)], [])
        assert (A + B).infer_shape(a=(), b=()) == ([(), ()], [()], [])
        assert LAYER.infer_shape(a=(0, 3)) == ([(0, 3), (2, 3), (2,)], [(0, 2)], [])
        assert sym.zeros((0, 3)).infer_shape() == ([], [(0, 3)], [])
        with pytest.raises(ShapeError):
            (A + B).infer_shape(a=(2, 0), b=(2, 3))
        with pytest.raises(ShapeError):
            (sym.zeros((0, 3)) + A).infer_shape(a=(2, 3))


def test_unknown_is_minus_one_or_none() -> None:
    with np_shape():
        assert (A + B).infer_shape(a=(2, -1), b=(-1, 3)) == ([(2, 3)] * 2, [(2, 3)], [])
        assert (A + B).infer_shape_partial(a=(2, -1)) == ([(2, -1)] * 2, [(2, -1)], [])
        assert (A + B).infer_shape_partial() == ([None, None], [None], [])
        stated = sym.Variable("s", shape=(-1, 3)) * 2
        assert stated.infer_shape_partial() == ([(-1, 3)], [(-1, 3)], [])


@pytest.mark.parametrize("shape", [(0, 3), ()])
def test_binding_to_empty_and_scalar_shapes(shape: tuple[int, ...]) -> None:
    with np_shape():
        executor = sym.sin(A).simple_bind(a=shape)
    assert executor.forward(is_train=True)[0].shape == shape
    executor.backward(nd.ones(shape))
    assert executor.grad_dict["a"].shape == shape


def test_the_mode_is_that_of_a_thread_unless_it_is_set_everywhere() -> None:
    found: list[bool] = []
    with np_shape():
        other = threading.Thread(target=lambda: found.append(is_np_shape()))
        other.start()
        other.join(10)
        with np_shape(False):
            assert not is_np_shape()
            assert (A + B).infer_shape(a=(2, 0), b=(0, 3))[1] == [(2, 3)]
        assert is_np_shape()
    assert not is_np_shape() and found == [False]
    assert set_np_shape(True) is False
    try:
        assert is_np_shape()
    finally:
        assert set_np_shape(False) is True


def test_functions_and_classes_in_the_mode() -> None:
    @use_np_shape
    def function() -> bool:
        return is_np_shape()

    @use_np_shape
    class Model:
        def method(self) -> bool:
            return is_np_shape()

    assert function() and Model().method() and not is_np_shape()


def test_what_is_unknown_is_refused_in_the_signs_of_the_mode() -> None:
    with np_shape(), pytest.raises(ShapeError, match=r"in a \(-1, 2\).* -1 is an unknown dimension"):
        (A + B).simple_bind(cpu(), a=(-1, 2))
    with pytest.raises(ShapeError, match=r"in a \(0, 2\).* 0 is an unknown dimension"):
        (A + B).simple_bind(cpu(), a=(0, 2))


def test_what_is_unknown_is_warned_of_in_the_signs_of_the_mode() -> None:
    with np_shape(), pytest.warns(UserWarning) as caught:
        assert (A + B).infer_shape(a=(-1, 2)) == (None, None, None)
    text = str(caught[0].message)
    assert "(-1 is an unknown dimension, None an unknown shape)" in text and "a: (-1, 2)" in text
    with pytest.warns(UserWarning) as caught:
        assert (A + B).infer_shape(a=(0, 2)) == (None, None, None)
    text = str(caught[0].message)
    assert "(0 is an unknown dimension, () an unknown shape)" in text and "a: (0, 2)" in text
