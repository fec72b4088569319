# SPDX-License-Identifier: Apache-2.0
"""Positions and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import IndexOutOfBoundsError, ShapeError
from mx_core.operator import infer_shapes


def test_positions_go_both_ways(run: Any) -> None:
    flat = np.arange(24, dtype=np.int32).reshape(2, 12)
    rows = run("_unravel_index", [flat], shape=(2, 3, 4))[0]
    assert rows.shape == (3, 2, 12) and rows[:, 1, 11].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(run("_ravel_multi_index", [rows], shape=(2, 3, 4))[0], flat)


def test_the_first_extent_may_be_open(run: Any) -> None:
    rows = run("_unravel_index", [np.array([0, 5, 1007])], shape=(-1, 4))[0]
    assert rows.tolist() == [[0, 1, 251], [0, 1, 3]]
    assert run("_ravel_multi_index", [rows], shape=(-1, 4))[0].tolist() == [0, 5, 1007]
    with pytest.raises(ShapeError, match="only the first"):
        infer_shapes(
            operators.get("_unravel_index"), operators.get("_unravel_index").Param(shape=(4, -1)), [(3,)]
        )


@pytest.mark.parametrize("wrong", [24.0, -1.0, np.nan])
def test_positions_outside(run: Any, wrong: float) -> None:
    with pytest.raises(IndexOutOfBoundsError, match=r"\[_unravel_index\] index"):
        run("_unravel_index", [np.array([wrong])], shape=(2, 3, 4))
    with pytest.raises(IndexOutOfBoundsError, match=r"\[_ravel_multi_index\] index"):
        run("_ravel_multi_index", [np.array([[0.0], [wrong]])], shape=(2, 3))


def test_shapes() -> None:
    op = operators.get("_ravel_multi_index")
    with pytest.raises(ShapeError, match=r"expected \(2, …\)"):
        infer_shapes(op, op.Param(shape=(2, 3)), [(3, 4)])
    op = operators.get("_contrib_arange_like")
    with pytest.raises(ShapeError, match="axis"):
        infer_shapes(op, op.Param(axis=2), [(3, 4)])


def test_ranges_like_data(run: Any) -> None:
    data = np.zeros((2, 3), np.float32)
    assert run("_contrib_arange_like", [data])[0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert run("_contrib_arange_like", [data], axis=-1, start=1.0, step=2.0)[0].tolist() == [1, 3, 5]
    assert run("_contrib_arange_like", [data], repeat=2)[0].tolist() == [[0, 0, 1], [1, 2, 2]]
