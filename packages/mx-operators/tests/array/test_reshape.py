# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import ShapeError
from mx_operators.array.reshape import reshape


@pytest.mark.parametrize(
    ("source", "codes", "expected"),
    [
        ((2, 3, 4), (4, 0, 2), (4, 3, 2)),
        ((2, 3, 4), (2, 0, 0), (2, 3, 4)),
        ((2, 3, 4), (6, 1, -1), (6, 1, 4)),
        ((2, 3, 4), (-1,), (24,)),
        ((2, 3, 4), (-2,), (2, 3, 4)),
        ((2, 3, 4), (2, -2), (2, 3, 4)),
        ((2, 3, 4), (-2, 1, 1), (2, 3, 4, 1, 1)),
        ((2, 3, 4), (-3, 4), (6, 4)),
        ((2, 3, 4, 5), (-3, -3), (6, 20)),
        ((2, 3, 4), (-4, 1, 2, -2), (1, 2, 3, 4)),
        ((2, 3, 4), (2, -4, -1, 3, -2), (2, 1, 3, 4)),
    ],
)
def test_codes(source: tuple[int, ...], codes: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert reshape(source, codes) == expected


def test_reverse_matches_from_the_right() -> None:
    assert reshape((10, 5, 4), (-1, 0), reverse=False) == (40, 5)
    assert reshape((10, 5, 4), (-1, 0), reverse=True) == (50, 4)


@pytest.mark.parametrize(
    "codes", [(-1, -1), (5, 5), (-4, 5, 5), (-4, -1, -1), (0, 0, 0, 0), (-9,), (-4, 0, 2)]
)
def test_impossible_codes_are_refused(codes: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="Reshape"):
        reshape((2, 3, 4), codes)


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.data())
def test_inferred_axis_equals_numpy(source: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(source))
    order[data.draw(st.integers(0, len(order) - 1))] = -1
    assert reshape(source, order) == np.zeros(source).reshape(order).shape
