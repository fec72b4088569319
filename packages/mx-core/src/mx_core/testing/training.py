# SPDX-License-Identifier: Apache-2.0
"""Checks of optimizers and metrics: what `Module` does with them, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import MXNetError
from mx_core.testing.expect import check_attributes

#: makes an NDArray of values
ToArray = Callable[[npt.NDArray[Any]], Any]


class Unsuited(Exception):
    """None of the made-up arguments is one that the object takes."""


def check_optimizer(optimizer: Any, array: ToArray) -> None:
    """An optimizer updates a weight of shape (4, 3) twice, in place, to finite values that differ from the first."""
    check_attributes(optimizer, ("create_state_multi_precision", "update_multi_precision"))
    before = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    weight, gradient = array(before), array(np.full((4, 3), 0.5, np.float32))
    state = optimizer.create_state_multi_precision(0, weight)
    for _ in range(2):
        optimizer.update_multi_precision(0, weight, gradient, state)
    after = weight.asnumpy()
    assert after.shape == before.shape, f"the weight of shape {before.shape} has shape {after.shape} now"
    assert np.isfinite(after).all(), f"the weight is {after.ravel().tolist()}"
    assert not np.array_equal(after, before), "two updates with a gradient of 0.5 leave the weight as it was"


def check_metric(metric: Any, array: ToArray) -> None:
    """A metric takes labels and predictions of a classification or a regression, and gives finite numbers.

    Raises
    ------
    Unsuited  it refuses both with an MXNetError
    Exception  what it raises on one of them, where it takes neither
    """
    check_attributes(metric, ("update", "reset", "get_name_value"))
    labels = np.array([0, 1, 1, 0], np.float32)
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]], np.float32)
    refusals: list[Exception] = []
    for label, prediction in ((labels, scores), (labels[:, None], scores[:, :1]), (labels, scores[:, 0])):
        try:
            metric.update([array(label)], [array(prediction)])
        except Exception as error:
            refusals.append(error)
            metric.reset()
            continue
        for name, value in metric.get_name_value():
            assert np.isfinite(value), f"{name} is {value!r}"
        return
    for raised in refusals:
        if not isinstance(raised, MXNetError):
            raise raised
    raise Unsuited(str(refusals[-1]))
