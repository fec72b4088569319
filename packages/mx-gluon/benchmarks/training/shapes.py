# SPDX-License-Identifier: Apache-2.0
"""What is trained, on what: plain data, read by Python 3.8 too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """Extents of a training step.

    Attributes
    ----------
    data : shape of the first input; the batch is its first axis, of LSTM's the second
    classes : how many a prediction chooses from
    labels : shape of the labels
    words : of the data, if they are indices
    """

    data: tuple[int, ...]
    classes: int
    labels: tuple[int, ...]
    words: int = 0


HIDDEN, HEADS, LAYERS = 128, 4, 2
CASES = {
    "MLP": Case((32, 784), 10, (32,)),
    "LeNet": Case((32, 1, 28, 28), 10, (32,)),
    "ResNet-18": Case((8, 3, 64, 64), 100, (8,)),
    "Transformer": Case((32, 16), 1000, (32, 16), words=1000),
    "LSTM": Case((35, 20), 1000, (35, 20), words=1000),
}
RATE, MOMENTUM = 0.01, 0.9


def batch(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Data and labels, float32."""
    random = np.random.RandomState(0)
    data = random.randint(0, case.words, case.data) if case.words else random.standard_normal(case.data)
    return data.astype(np.float32), random.randint(0, case.classes, case.labels).astype(np.float32)
