# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import ShapeError
from mx_operators_cuda.codegen import layout_of


def test_equal_shapes_are_one_axis() -> None:
    layout = layout_of((2, 3, 4), [(2, 3, 4), (2, 3, 4), ()])
    assert (layout.sizes, layout.strides, layout.elements) == ((24,), ((1,), (1,), (0,)), 24)
    assert layout.flat and layout.whole(0) and layout.single(2)


def test_axes_walked_alike_are_merged() -> None:
    layout = layout_of((2, 3, 4, 5), [(2, 3, 4, 5), (3, 1, 1)])
    assert layout.sizes == (2, 3, 20)
    assert layout.strides == ((60, 20, 1), (0, 1, 0))
    assert not layout.flat


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(ShapeError, match=r"\(2,\) does not broadcast to \(3,\)"):
        layout_of((3,), [(2,)])
    with pytest.raises(ShapeError):
        layout_of((3,), [(1, 3)])


def test_indices_are_64_bit_from_2_31_elements() -> None:
    assert not layout_of((1 << 20, 2047), []).wide
    assert layout_of((1 << 20, 2048), []).wide


@settings(deadline=None)
@given(st.data())
def test_strides_address_what_numpy_broadcasts(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), max_size=5)))
    masks = data.draw(st.lists(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)), max_size=3))
    inputs = [tuple(s if m else 1 for s, m in zip(shape, mask, strict=True)) for mask in masks]
    layout = layout_of(shape, inputs)
    assert all(size > 1 for size in layout.sizes)
    for given_shape, strides in zip(inputs, layout.strides, strict=True):
        numbered = np.broadcast_to(np.arange(np.prod(given_shape, dtype=int)).reshape(given_shape), shape)
        grid = np.indices(layout.sizes) if layout.sizes else np.zeros((0, 1), int)
        address = sum((g * s for g, s in zip(grid, strides, strict=True)), np.zeros((), int))
        np.testing.assert_array_equal(
            np.ravel(numbered), np.broadcast_to(address, layout.sizes or (1,)).ravel()
        )
