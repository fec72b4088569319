# SPDX-License-Identifier: Apache-2.0
"""Classes without replacement: different, as probable as they should be, the same for the same key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import ShapeError
from mx_core.operator import infer_shapes

NAME = "_sample_unique_zipfian"


@pytest.mark.parametrize(("classes", "count"), [(1, 1), (7, 7), (1000, 30), (5, 0)])
def test_rows_are_different_classes(run: Any, classes: int, count: int) -> None:
    samples, tries = run(NAME, [], range_max=classes, shape=(6, count))
    assert samples.shape == (6, count) and tries.shape == (6,)
    assert ((samples >= 0) & (samples < classes)).all() and (tries >= count).all()
    assert all(len(set(row)) == count for row in samples.tolist())
    again = run(NAME, [], range_max=classes, shape=(6, count))
    np.testing.assert_array_equal(samples, again[0])


@pytest.mark.long
def test_probabilities_of_the_first_draws(run: Any) -> None:
    classes, n = 20, 20000
    samples, tries = run(NAME, [], range_max=classes, shape=(n, 1))
    assert (tries == 1).all()
    k = np.arange(classes)
    high, low = np.minimum(k + 1.5, classes), np.maximum(k + 0.5, 1)
    expected = np.log(high / low) / np.log(classes)
    found = np.bincount(samples.ravel(), minlength=classes) / n
    assert (abs(found - expected) < 5 * np.sqrt(expected / n)).all()


@pytest.mark.parametrize("shape", [None, (5,), (2, 2, 2), (1, 8)])
def test_shapes_that_cannot_be(shape: Any) -> None:
    op = operators.get(NAME)
    with pytest.raises(ShapeError, match="shape: expected"):
        infer_shapes(op, op.Param(range_max=7, shape=shape), [])
