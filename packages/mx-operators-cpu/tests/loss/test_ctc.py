# SPDX-License-Identifier: Apache-2.0
"""CTC losses and slopes against their reference: blanks, lengths, types, ranges that double does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import plans
import pytest

from mx_core import operators
from mx_core.errors import IndexOutOfBoundsError

BIG = {"float32": 2e-5, "float64": 1e-10, "float16": 2e-3, "bfloat16": 2e-2}


def _labels(rng: np.random.Generator, batch: int, most: int, classes: int, first: bool) -> np.ndarray:
    """Labels with repetitions and padding."""
    labels = rng.integers(1 if first else 0, classes if first else classes - 1, (batch, most))
    if most > 2:
        labels[:, 2] = labels[:, 1]
    for row, length in zip(labels, rng.integers(0, most + 1, batch), strict=True):
        row[length:] = 0 if first else -1
    return labels


@pytest.mark.parametrize("dtype", plans.FLOATS)
@pytest.mark.parametrize("blank", ["first", "last"])
@pytest.mark.parametrize(
    ("steps", "batch", "classes", "most"), [(1, 1, 2, 1), (6, 3, 5, 4), (40, 4, 30, 17), (9, 2, 7, 0)]
)
def test_losses(
    rng: np.random.Generator, dtype: str, blank: str, steps: int, batch: int, classes: int, most: int
) -> None:
    data = plans.array(rng, (steps, batch, classes), dtype)
    label = _labels(rng, batch, most, classes, blank == "first")
    attrs: dict[str, Any] = {"blank_label": blank}
    plans.verify("CTCLoss", attrs, [data, label.astype(np.float32)], rtol=BIG[dtype], threads=2)
    counts = np.array([(row > 0).argmin() if (row <= 0).any() else most for row in label])
    lengths = rng.integers(max(most, 1), steps + 1, batch)
    attrs |= {"use_data_lengths": True, "use_label_lengths": True}
    plans.verify(
        "CTCLoss", attrs, [data, label.astype(np.int32), lengths, counts.astype(np.float32)], rtol=BIG[dtype]
    )


@pytest.mark.parametrize("scale", [30.0, 400.0, 3000.0])
def test_probabilities_beyond_the_range_of_double(rng: np.random.Generator, scale: float) -> None:
    """Paths that become likely only after what would have been lost."""
    data = rng.standard_normal((60, 3, 9)) * scale
    label = rng.integers(1, 9, (3, 20))
    plans.verify("CTCLoss", {}, [data, label], rtol=1e-9)
    data[:30, :, 0], data[30:, :, 0] = scale, -scale
    plans.verify("CTCLoss", {}, [data, label], rtol=1e-9)


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_long_sequences(rng: np.random.Generator, scale: float) -> None:
    data = rng.standard_normal((300, 2, 50)) * scale
    plans.verify("CTCLoss", {}, [data, rng.integers(1, 50, (2, 120))], rtol=1e-9, threads=2)


def test_labels_that_no_path_reads(rng: np.random.Generator) -> None:
    data = rng.standard_normal((4, 3, 5))
    label = np.array([[1, 1, 1, 0], [1, 2, 3, 4], [2, 2, 0, 0]])
    plans.verify("CTCLoss", {}, [data, label])
    data[1, 1, 2] = -np.inf
    data[2, 2] = np.nan
    plans.verify("CTCLoss", {}, [data, label])


@pytest.mark.parametrize("blank", ["first", "last"])
def test_the_blank_as_a_label(rng: np.random.Generator, blank: str) -> None:
    """MXNet takes it where lengths are given; no path skips to it from the label before."""
    label = np.array([[0, 3, 1, 2], [3, 3, 0, 0], [2, 0, 2, 3], [1, 2, 0, 3]])
    inputs = [rng.standard_normal((7, 4, 4)), label, np.array([4, 3, 4, 2])]
    plans.verify("CTCLoss", {"use_label_lengths": True, "blank_label": blank}, inputs)


@pytest.mark.parametrize("shape", [(3, 0, 4), (3, 2, 0)])
def test_nothing_to_read(shape: tuple[int, int, int]) -> None:
    plans.verify("CTCLoss", {}, [np.zeros(shape, np.float32), np.zeros((shape[1], 0), np.float32)])


@pytest.mark.parametrize(
    ("label", "lengths", "message"),
    [
        ([[1, 5]], [3], r"label: expected 1 to 4, got 5"),
        ([[-2, 1]], [3], r"label: expected 1 to 4, got -2"),
        ([[1, 2]], [4], r"data_lengths: expected 1 to 3, got 4"),
        ([[1, 2]], [0], r"data_lengths: expected 1 to 3, got 0"),
    ],
)
def test_what_is_out_of_bounds_is_an_error(label: list[list[int]], lengths: list[int], message: str) -> None:
    op = operators.get("CTCLoss")
    inputs = [np.zeros((3, 1, 5), np.float32), np.array(label), np.array(lengths)]
    call = plans.call_of(op, op.Param.parse({"use_data_lengths": True}, op=op.name), inputs)
    outputs = [np.full(s.shape, 7, np.float32) for s in call.outputs]
    with pytest.raises(IndexOutOfBoundsError, match=message):
        plans.run(plans.plan_of(call), inputs, outputs, [plans.WRITE] * 2)
    assert all((x == 7).all() for x in outputs)


@pytest.mark.parametrize("dtype", plans.FLOATS)
def test_backward(rng: np.random.Generator, dtype: str) -> None:
    head, slope = plans.array(rng, (3,), dtype), plans.array(rng, (5, 3, 4), dtype)
    data, label = plans.array(rng, (5, 3, 4), dtype), np.ones((3, 2), np.float32)
    plans.verify("_backward_CTCLoss", {}, [head, slope, data, label])
