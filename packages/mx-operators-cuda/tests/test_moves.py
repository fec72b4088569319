# SPDX-License-Identifier: Apache-2.0
"""Copies between views: what is walked, and that NVRTC accepts it; numbers: `on_gpu/operators.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import dtypes, operators
from mx_core.operator.declaration import ReferenceContext
from mx_operators_cuda.codegen.move import View, walk, write_move


@settings(deadline=None)
@given(data=st.data())
def test_a_walk_visits_the_elements_in_order(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    whole = np.arange(int(np.prod(shape))).reshape(shape)
    cuts = tuple(slice(None, None, data.draw(st.sampled_from((1, 2, -1)))) for _ in shape)
    view = whole[cuts].transpose(data.draw(st.permutations(range(len(shape)))))
    target = np.empty(view.shape, whole.dtype)
    source = View.of(view, whole)
    way = walk(source, View.of(target, target))
    positions = [sum(k * s for k, s in zip(at, way.source, strict=True)) for at in np.ndindex(*way.sizes)]
    np.testing.assert_array_equal(whole.ravel()[np.array(positions) + source.offset], view.ravel())


def test_neighbours_that_walk_as_one_are_merged() -> None:
    whole = np.empty((4, 5, 6))
    assert walk(View.of(whole, whole), View.of(whole, whole)).sizes == (120,)
    turned = whole.transpose(2, 0, 1)
    way = walk(View.of(turned, whole), View((6, 4, 5), (20, 5, 1), 0))
    assert (way.sizes, way.source, way.target) == ((6, 20), (1, 6), (20, 1))


def test_a_copy_is_no_view() -> None:
    whole = np.empty((4, 5))
    with pytest.raises(ValueError, match="a copy"):
        View.of(whole[::2].copy(), whole)


@pytest.mark.parametrize(("axis", "strides"), [((0, 0), (5, 1)), ((0, 1, 0), (5, -1)), ((0, -2, 0), (-5, 1))])
def test_an_axis_that_is_named_twice_is_reversed_twice(
    axis: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    reverse, whole = operators.get("reverse"), np.empty((4, 5), np.uint8)
    (view,) = reverse.reference(reverse.Param.parse({"axis": axis}), [whole], ReferenceContext())
    assert View.of(view, whole).strides == strides


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8", "int64", "bool"])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_moves_compile(dtype: str, rank: int, nvrtc: Any) -> None:
    for scalar in (False, True):
        source = write_move("move", dtypes.code(dtype), rank, scalar)
        log = nvrtc.compile_kernel(source.text, source.name, options=("--ptxas-options=-v",)).log
        assert "0 bytes spill stores" in log and "warning" not in log, log
