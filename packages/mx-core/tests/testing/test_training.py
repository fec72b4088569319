# SPDX-License-Identifier: Apache-2.0
"""The checks of optimizers and metrics accept right ones and find each fault."""

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_core.testing.training import Unsuited, check_metric, check_optimizer


class Array(np.ndarray):
    """A NumPy array with the method that checks read values with."""

    def asnumpy(self):
        return np.asarray(self)


def array(values):
    return np.array(values).view(Array)


class Plain:
    """weight -= rate * gradient."""

    rate = 0.1

    def create_state_multi_precision(self, index, weight):
        return None

    def update_multi_precision(self, index, weight, grad, state):
        weight -= self.rate * grad


class Idle(Plain):
    rate = 0


class Diverging(Plain):
    rate = np.inf


def test_optimizers():
    check_optimizer(Plain(), array)
    with pytest.raises(AssertionError, match="leave the weight as it was"):
        check_optimizer(Idle(), array)
    with pytest.raises(AssertionError, match="the weight is"):
        check_optimizer(Diverging(), array)
    with pytest.raises(
        AssertionError, match="list lacks create_state_multi_precision, update_multi_precision"
    ):
        check_optimizer([Plain()], array)


class Error:
    """Mean absolute error; takes predictions of the labels' shape."""

    scale = 1.0

    def reset(self):
        self.value = 0.0

    def update(self, labels, predictions):
        (label,), (prediction,) = labels, predictions
        if label.shape != prediction.shape:
            raise ArgumentError("prediction: expected the shape of the labels")
        self.value = self.scale * float(np.abs(label - prediction).mean())

    def get_name_value(self):
        return [("error", self.value)]


class Endless(Error):
    scale = float("inf")


class Choosy(Error):
    def update(self, labels, predictions):
        raise ArgumentError("expected sequences of words")


class Raising(Error):
    def update(self, labels, predictions):
        raise RuntimeError("no licence")


def test_metrics():
    check_metric(Error(), array)
    with pytest.raises(AssertionError, match="error is inf"):
        check_metric(Endless(), array)
    with pytest.raises(Unsuited, match="sequences of words"):
        check_metric(Choosy(), array)
    with pytest.raises(AssertionError, match="list lacks update, reset, get_name_value"):
        check_metric([Error()], array)
    with pytest.raises(RuntimeError, match="no licence"):
        check_metric(Raising(), array)
