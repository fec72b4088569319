# SPDX-License-Identifier: Apache-2.0
"""Metrics of classifiers: accuracy, top-k accuracy, F1, cross-entropy, perplexity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError, IndexOutOfBoundsError
from mx_train.metric.metric import Arrays, EvalMetric, pairs

Names = Sequence[str] | None


def _classes(label: Any, pred: Any, axis: int) -> tuple[Any, Any]:
    """Flat integer labels and predicted classes."""
    p, y = pred.asnumpy(), label.asnumpy()
    if p.shape != y.shape:
        p = p.argmax(axis)
    p, y = p.astype(np.int64).ravel(), y.astype(np.int64).ravel()
    if p.shape != y.shape:
        raise ArgumentError(f"[metric] {y.size} labels for {p.size} predictions")
    return y, p


class Accuracy(EvalMetric):
    """Share of samples whose largest prediction is the label."""

    def __init__(
        self, axis: int = 1, name: str = "accuracy", output_names: Names = None, label_names: Names = None
    ) -> None:
        super().__init__(name, output_names, label_names, axis=axis)
        self.axis = axis

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Counts hits."""
        for label, pred in pairs(labels, preds, self.name):
            y, p = _classes(label, pred, self.axis)
            self._add(float((y == p).sum()), y.size)


class TopKAccuracy(EvalMetric):
    """Share of samples whose label is among the k largest predictions."""

    def __init__(
        self,
        top_k: int = 1,
        name: str = "top_k_accuracy",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        if top_k < 2:
            raise ArgumentError(f"[TopKAccuracy] top_k: expected at least 2, got {top_k}; use Accuracy")
        super().__init__(f"{name}_{top_k}", output_names, label_names, top_k=top_k)
        self.top_k = top_k

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Counts hits."""
        for label, pred in pairs(labels, preds, self.name):
            p, y = pred.asnumpy(), label.asnumpy().astype(np.int64).ravel()
            k = min(self.top_k, p.shape[1])
            best = np.argpartition(-p.astype(np.float32), k - 1, axis=1)[:, :k]
            self._add(float((best == y[:, None]).any(1).sum()), y.size)


class F1(EvalMetric):
    """Harmonic mean of precision and recall of class 1 of two.

    average="macro" averages the score over batches, "micro" counts over all samples.
    """

    def __init__(
        self, name: str = "f1", output_names: Names = None, label_names: Names = None, average: str = "macro"
    ) -> None:
        self.average = average
        super().__init__(name, output_names, label_names, average=average)

    def reset(self) -> None:
        """Forgets everything."""
        super().reset()
        self._counts = np.zeros(3)

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Counts true positives, false positives, false negatives."""
        for label, pred in pairs(labels, preds, self.name):
            y, p = _classes(label, pred, 1)
            if y.size and y.max() > 1:
                raise ArgumentError(f"[F1] expected labels 0 and 1, got {int(y.max())}")
            y, p = y == 1, p == 1  # labels may also be -1 and 1
            counts = np.array([(y & p).sum(), (p & ~y).sum(), (y & ~p).sum()], np.float64)
            self._counts += counts
            if self.average == "macro":
                self._add(_f1(counts), 1)
            else:
                self.reset_local()
                self.global_num_inst, self.global_sum_metric = 0, 0.0
                self._add(_f1(self._counts) * self._counts.sum(), int(self._counts.sum()) or 1)


def _f1(counts: Any) -> float:
    hits, false_alarms, misses = counts
    denominator = 2 * hits + false_alarms + misses
    return float(2 * hits / denominator) if denominator else 0.0


def _picked(metric: EvalMetric, probabilities: Any, labels: Any) -> Any:
    """The probability of each row's label."""
    classes = probabilities.shape[1]
    wrong = labels[(labels < -classes) | (labels >= classes)]
    if wrong.size:
        raise IndexOutOfBoundsError(
            f"[{type(metric).__name__}] label: expected classes below {classes}, as there are probabilities, got "
            f"{int(wrong[0])}"
        )
    return probabilities[np.arange(labels.size), labels]


class CrossEntropy(EvalMetric):
    """Average −log of the probability of the label."""

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "cross-entropy",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(name, output_names, label_names, eps=eps)
        self.eps = eps

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Sums logarithms."""
        for label, pred in pairs(labels, preds, self.name):
            y = label.asnumpy().ravel().astype(np.int64)
            p = pred.asnumpy().reshape(y.size, -1)
            self._add(float(-np.log(_picked(self, p, y) + self.eps).sum()), y.size)


class NegativeLogLikelihood(CrossEntropy):
    """The same under its other name."""

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "nll-loss",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(eps, name, output_names, label_names)


class Perplexity(EvalMetric):
    """exp of the average −log probability; positions with ignore_label do not count."""

    def __init__(
        self,
        ignore_label: int | None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(name, output_names, label_names, ignore_label=ignore_label, axis=axis)
        self.ignore_label, self.axis = ignore_label, axis

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Sums logarithms."""
        for label, pred in pairs(labels, preds, self.name):
            y = label.asnumpy().ravel().astype(np.int64)
            p = np.moveaxis(pred.asnumpy(), self.axis, -1).reshape(y.size, -1)
            counted = np.ones(y.size, bool) if self.ignore_label is None else y != self.ignore_label
            picked = _picked(self, p[counted], y[counted])
            self._add(float(-np.log(np.maximum(picked, 1e-10)).sum()), int(counted.sum()))

    def _value(self, total: float, count: int) -> float:
        return float(np.exp(total / count)) if count else float("nan")
