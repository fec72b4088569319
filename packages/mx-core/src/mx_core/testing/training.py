# SPDX-License-Identifier: Apache-2.0
"""Checks of optimizers, metrics and initializers: what `Module` does with them, once."""

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
    """An optimizer updates two weights of shape (4, 3) twice, in place, to finite values.

    Every element changes, by an amount that depends on the gradient, which stays as it is. Weights have states of their
    own.
    """
    check_attributes(optimizer, ("create_state_multi_precision", "update_multi_precision"))
    before = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    results, states = [], []
    for index, slope in enumerate((0.5, -0.5)):
        weight, gradient = array(before), array(np.full((4, 3), slope, np.float32))
        state = optimizer.create_state_multi_precision(index, weight)
        for _ in range(2):
            optimizer.update_multi_precision(index, weight, gradient, state)
        after = weight.asnumpy()
        assert after.shape == before.shape, f"the weight of shape {before.shape} has shape {after.shape} now"
        assert np.isfinite(after).all(), f"the weight is {after.ravel().tolist()}"
        same = int((after == before).sum())
        assert same < after.size, f"two updates with a gradient of {slope} leave the weight as it was"
        assert not same, (
            f"two updates with a gradient of {slope} leave {same} of {after.size} elements as they were"
        )
        assert (gradient.asnumpy() == slope).all(), (
            f"it changes the gradient, which was {slope} and is {gradient.asnumpy().ravel().tolist()}"
        )
        results.append(after)
        states.append({id(part) for part in _arrays(state)})
    assert not np.array_equal(*results), "gradients of 0.5 and -0.5 give the same weight"
    assert not states[0] & states[1], "create_state gives two weights the same array"


def _arrays(state: Any) -> list[Any]:
    """The arrays of a state."""
    if isinstance(state, (list, tuple)):
        return [array for part in state for array in _arrays(part)]
    return [state] if hasattr(state, "asnumpy") else []


def check_initializer(initializer: Any, array: ToArray) -> None:
    """An initializer writes every element of a weight, to finite values.

    Raises
    ------
    Unsuited  it refuses weights of one, two and four dimensions with an MXNetError
    """
    assert callable(initializer), (
        f"make gives a {type(initializer).__name__}; expected a function of a name and an array"
    )
    refusal: Exception | None = None
    for shape in ((4, 6), (4, 3, 3, 3), (8,)):
        weight = array(np.full(shape, np.nan, np.float32))
        try:
            initializer("fc_weight", weight)
        except MXNetError as error:
            refusal = error
            continue
        found = weight.asnumpy()
        assert found.shape == shape, f"the weight of shape {shape} has shape {found.shape} now"
        wrong = int((~np.isfinite(found)).sum())
        assert not wrong, (
            f"{wrong} of {found.size} elements of a weight of shape {shape} are not written, or are nan or inf"
        )
        return
    raise Unsuited(str(refusal))


def check_metric(metric: Any, array: ToArray) -> None:
    """A metric takes labels and predictions of a classification or a regression, and gives finite numbers.

    After a reset the same arrays give the same numbers. The arrays stay as they are.

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
        given = [array(label)], [array(prediction)]
        try:
            metric.update(*given)
        except Exception as error:
            refusals.append(error)
            metric.reset()
            continue
        found = _numbers(metric)
        for what, (now,), was in zip(("labels", "predictions"), given, (label, prediction), strict=True):
            assert np.array_equal(now.asnumpy(), was), f"update changes the {what}"
        metric.reset()
        metric.update([array(1 - label)], [array(prediction)])
        metric.reset()
        metric.update(*given)
        again = _numbers(metric)
        assert again == found, f"the same arrays give {found}, after reset {again}"
        return
    for raised in refusals:
        if not isinstance(raised, MXNetError):
            raise raised
    raise Unsuited(str(refusals[-1]))


def _numbers(metric: Any) -> list[tuple[str, float]]:
    numbers = []
    for name, value in metric.get_name_value():
        is_number = np.asarray(value).dtype.kind in "biuf" and np.size(value) == 1
        assert is_number, f"{name} is {value!r}; expected a number"
        assert np.isfinite(value), f"{name} is {value!r}"
        numbers.append((name, float(value)))
    return numbers
