# SPDX-License-Identifier: Apache-2.0
"""Metrics of classifiers: accuracy, top-k accuracy, cross-entropy, perplexity."""

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
            if p.ndim != 2 or len(p) != y.size:
                raise ArgumentError(
                    f"[TopKAccuracy] predictions: expected {y.size} rows of classes, one per label, got shape {p.shape}"
                )
            k = min(self.top_k, p.shape[1])
            best = np.argpartition(-p.astype(np.float32), k - 1, axis=1)[:, :k]
            self._add(float((best == y[:, None]).any(1).sum()), y.size)


def _rows(metric: EvalMetric, probabilities: Any, labels: Any) -> Any:
    """Probabilities as one row of classes per label."""
    if probabilities.ndim < 1 or probabilities[..., 0].size != labels.size:
        raise ArgumentError(
            f"[{type(metric).__name__}] predictions: expected {labels.size} rows of classes, one per label, got shape "
            f"{probabilities.shape}"
        )
    return probabilities.reshape(labels.size, probabilities.shape[-1])


def _picked(metric: EvalMetric, probabilities: Any, labels: Any, least: int) -> Any:
    """The probability of each row's label, which is `least` or more; classes below 0 count from the last."""
    classes = probabilities.shape[1]
    wrong = labels[(labels < least) | (labels >= classes)]
    if wrong.size:
        raise IndexOutOfBoundsError(
            f"[{type(metric).__name__}] label: expected classes below {classes}, as there are probabilities, and "
            f"not below {least}, got {int(wrong[0])}"
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
            p = _rows(self, pred.asnumpy(), y)
            self._add(float(-np.log(_picked(self, p, y, -p.shape[1]) + self.eps).sum()), y.size)


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
            p = _rows(self, np.moveaxis(pred.asnumpy(), self.axis, -1), y)
            counted = np.ones(y.size, bool) if self.ignore_label is None else y != self.ignore_label
            picked = _picked(self, p[counted], y[counted], 0)
            self._add(float(-np.log(np.maximum(picked, 1e-10)).sum()), int(counted.sum()))

    def _value(self, total: float, count: int) -> float:
        return float(np.exp(total / count)) if count else float("nan")
