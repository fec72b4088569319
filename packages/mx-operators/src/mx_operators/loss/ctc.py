# SPDX-License-Identifier: Apache-2.0
"""Connectionist temporal classification.

Source: Graves, Fernández, Gomez, Schmidhuber, Connectionist Temporal Classification, ICML 2006.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, ShapeOnly, Shapes, opt
from mx_operators.nn.base import wide


class CTCLossParam(Params):
    """Which lengths are given, and which class is the blank."""

    use_data_lengths: bool = opt(False, "data_lengths is given; else all sequences have length T")
    use_label_lengths: bool = opt(False, "label_lengths is given; else labels end at the first padding")
    blank_label: str = opt(
        "first", "first: blank is class 0, labels count from 1, padding is 0; last: blank is class "
        "C − 1, labels count from 0, padding is −1", choices=("first", "last"),
    )  # fmt: skip


class CTCLoss(Operator[CTCLossParam]):
    """−log of the probability that softmax(data) reads as label, per sequence: (N,).

    data (T, N, C) before the softmax, label (N, L) with L ≤ T. A path reads as a label once
    repetitions are merged and blanks removed. The loss of a label that no path of the length can
    read is 0, without gradient. The blank may be a label too: it is read between two blanks.
    """

    name = "CTCLoss"
    aliases = ("ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss")
    arguments = ("data", "label", "data_lengths", "label_lengths")
    without_gradient = ("label", "data_lengths", "label_lengths")
    free_types = {"label": "data", "data_lengths": "data", "label_lengths": "data"}
    results = ("output0", "slope")
    hidden = ("slope",)

    def inputs(self, p: CTCLossParam) -> tuple[str, ...]:
        """Lengths as the parameters say."""
        wanted = {"data_lengths": p.use_data_lengths, "label_lengths": p.use_label_lengths}
        return tuple(name for name in self.arguments if wanted.get(name, True))

    def infer_shape(self, p: CTCLossParam, s: Shapes) -> None:
        data, label = s.get("data"), s.get("label")
        if data is None:
            return
        if len(data) != 3:
            raise s.error(f"data: expected 3 dimensions (T, N, C), got {data}")
        if label is not None and len(label) != 2:
            raise s.error(f"label: expected 2 dimensions (N, L), got {label}")
        s.assign("label", (data[1], -1))
        if label is not None and 0 <= data[0] < label[1]:
            raise s.error(f"label: expected at most {data[0]} labels for data {data}, got {label}")
        for name in self.inputs(p)[2:]:
            s.assign(name, data[1:2])
        s.unify(["data", "slope"])
        s.assign("output0", data[1:2])

    def reference(self, p: CTCLossParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Forward and backward variables in the log domain, all sequences at once."""
        table = dict(zip(self.inputs(p), inputs, strict=True))
        data = wide(table["data"])
        steps, batch, classes = data.shape
        labels, counts = _labels(p, table, classes)
        lengths = table["data_lengths"].astype(np.int64) if p.use_data_lengths else np.full(batch, steps)
        if lengths.size and not (lengths.min() >= 1 and lengths.max() <= steps):
            raise IndexOutOfBoundsError(
                f"[CTCLoss] data_lengths: expected 1 to {steps}, got {lengths.tolist()}"
            )
        if not data.size:
            return np.zeros(batch, table["data"].dtype), np.zeros_like(table["data"])
        loss, slope = _ctc(data, labels, counts, lengths, 0 if p.blank_label == "first" else classes - 1)
        return loss.astype(table["data"].dtype), slope.astype(table["data"].dtype)

    def backward(self, p: CTCLossParam, out_grad: Array, slope: Array, inputs: Sequence[ShapeOnly]) -> Array:
        """The slope, scaled per sequence."""
        return out_grad[None, :, None] * slope


def _labels(p: CTCLossParam, table: dict[str, Array], classes: int) -> tuple[Array, Array]:
    """Labels as classes (N, L), and how many there are per sequence."""
    labels = table["label"].astype(np.int64)
    batch, most = labels.shape
    if p.use_label_lengths:
        counts = table["label_lengths"].astype(np.int64)
        if counts.size and not (counts.min() >= 0 and counts.max() <= most):
            raise IndexOutOfBoundsError(
                f"[CTCLoss] label_lengths: expected 0 to {most}, got {counts.tolist()}"
            )
    else:
        end = labels == (0 if p.blank_label == "first" else -1)
        counts = np.where(end.any(1), end.argmax(1), most) if most else np.zeros(batch, np.int64)
    used = np.arange(most) < counts[:, None]
    low, high = int(p.blank_label == "first" and not p.use_label_lengths), classes - 1
    wrong = labels[used & ((labels < low) | (labels > high))]
    if wrong.size:
        raise IndexOutOfBoundsError(f"[CTCLoss] label: expected {low} to {high}, got {wrong[0]}")
    return np.where(used, labels, 0), counts


def _ctc(data: Array, labels: Array, counts: Array, lengths: Array, blank: int) -> tuple[Array, Array]:
    """Losses (N,) and slopes (T, N, C), in float64."""
    steps, batch, classes = data.shape
    shifted = data.astype(np.float64)
    shifted -= shifted.max(2, keepdims=True)
    log_prob = shifted - np.log(np.exp(shifted).sum(2, keepdims=True))
    states = 2 * labels.shape[1] + 1
    path = np.full((batch, states), blank)
    path[:, 1::2] = labels
    emitted = np.take_along_axis(log_prob, path[None], 2)  # (T, N, S)
    inside = np.arange(states) <= 2 * counts[:, None]
    emitted = np.where(inside, emitted, -np.inf)
    skip = np.zeros((batch, states), bool)
    skip[:, 3::2] = (labels[:, 1:] != labels[:, :-1]) & (labels[:, 1:] != blank)
    rows = np.arange(batch)
    with np.errstate(invalid="ignore", divide="ignore"):
        forward = np.full((steps, batch, states), -np.inf)
        forward[0, :, :2] = emitted[0, :, :2]
        for t in range(1, steps):
            forward[t] = _reach(forward[t - 1], skip) + emitted[t]
        backward = np.full((steps, batch, states), -np.inf)
        # Reversed, a path may skip to where the forward one skipped from.
        back_skip = np.zeros_like(skip)
        back_skip[:, :-2] = skip[:, 2:]
        for t in range(steps - 1, -1, -1):
            if t + 1 < steps:
                later = backward[t + 1] + emitted[t + 1]
                backward[t] = _reach(later[:, ::-1], back_skip[:, ::-1])[:, ::-1]
            last = lengths == t + 1
            backward[t, last] = -np.inf
            backward[t, rows[last], 2 * counts[last]] = 0
            labelled = last & (counts > 0)
            backward[t, rows[labelled], 2 * counts[labelled] - 1] = 0
        total = _log_sum(forward[0] + backward[0])
        possible = np.isfinite(total)
        joint = forward + backward - np.where(possible, total, 0)[:, None]
        shares = np.where(np.isnan(joint), 0, np.exp(joint))
    occupancy = np.zeros_like(log_prob)
    index = np.broadcast_to(rows[:, None], path.shape)
    for t in range(steps):
        np.add.at(occupancy[t], (index, path), shares[t])
    counted = (np.arange(steps)[:, None] < lengths) & possible
    slope = np.where(counted[:, :, None], np.exp(log_prob) - occupancy, 0)
    return np.where(possible, -total, 0), slope


def _reach(previous: Array, skip: Array) -> Array:
    """log of the sum over staying, advancing by one, and by two where allowed."""
    one = np.full_like(previous, -np.inf)
    one[:, 1:] = previous[:, :-1]
    two = np.full_like(previous, -np.inf)
    two[:, 2:] = np.where(skip[:, 2:], previous[:, :-2], -np.inf)
    return np.logaddexp(np.logaddexp(previous, one), two)


def _log_sum(x: Array) -> Array:
    high = x.max(1)
    safe = np.where(np.isfinite(high), high, 0)
    return safe + np.log(np.exp(x - safe[:, None]).sum(1))
