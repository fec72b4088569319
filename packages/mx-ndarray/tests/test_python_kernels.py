# SPDX-License-Identifier: Apache-2.0
"""What becomes of the results of kernels written in Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mx_core.errors import MXNetError, ShapeError
from mx_ndarray import python_kernels

CONTEXT = (False, (), 0, 0)


def test_results_are_stored_added_or_left() -> None:
    written, added = np.zeros(2, np.float32), np.ones(2, np.float32)
    given: list[tuple[int, ...]] = []
    made = np.zeros(3)

    def make(shape: tuple[int, ...]) -> np.ndarray:
        given.append(shape)
        return made

    results = ([1.0, 2.0], np.array([3.0, 4.0]), [9.0], np.arange(3.0))
    targets = [(written, False), (added, True), (None, False), (make, False)]
    python_kernels.run(lambda ctx, inputs: results, "op", CONTEXT, [], targets)
    assert written.tolist() == [1, 2]
    assert added.tolist() == [4, 5]
    assert given == [(3,)]
    assert made.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("results", "described"),
    [
        (None, "NoneType"),
        (5, "int"),
        ((), r"0 arrays \(tuple\)"),
        (([1.0], [2.0]), r"2 arrays \(tuple\)"),
        ([[1.0]] * 3, r"3 arrays \(list\)"),
        (np.zeros((4, 6)), r"one array of shape \(4, 6\), not in a sequence"),
    ],
)
def test_another_number_of_results_is_refused(results: object, described: str) -> None:
    message = (
        rf"^\[op\] the kernel returned {described}; expected a sequence of 1 array: outputs, new auxiliary"
    )
    with pytest.raises(MXNetError, match=message):
        python_kernels.run(lambda ctx, inputs: results, "op", CONTEXT, [], [(np.zeros(1), False)])


def test_a_result_of_another_shape_is_refused() -> None:
    with pytest.raises(ShapeError, match="returned shape \\(2,\\), expected \\(1,\\)"):
        python_kernels.run(lambda ctx, inputs: [[1.0, 2.0]], "op", CONTEXT, [], [(np.zeros(1), False)])


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[::-1], lambda x: x[...]])
def test_results_that_are_views_of_an_input_are_read_before_it_is_written(
    view: Callable[[np.ndarray], np.ndarray],
) -> None:
    memory = np.array([1.0, 2, 3])
    second, added = np.zeros(3), np.ones(3)
    targets = [(memory, False), (second, False), (added, True)]
    wanted = view(memory.copy())
    python_kernels.run(
        lambda ctx, inputs: (inputs[0] + 1, view(inputs[0]), view(inputs[0])),
        "views",
        CONTEXT,
        [memory],
        targets,
    )
    np.testing.assert_array_equal(memory, [2, 3, 4])
    np.testing.assert_array_equal(second, wanted)
    np.testing.assert_array_equal(added, wanted + 1)
