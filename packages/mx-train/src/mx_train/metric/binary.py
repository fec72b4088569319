# SPDX-License-Identifier: Apache-2.0
"""Metrics of two classes: F1 and Matthews' correlation, over batches or over all samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_train.metric.correlation import correlation
from mx_train.metric.metric import Arrays, EvalMetric, pairs

Names = Sequence[str] | None


class _Binary(EvalMetric):
    """A score of a table of counts: rows are labels, columns classes, and class 1 is the positive one.

    Any other label or class is a negative one, so labels may be −1 and 1.
    """

    def __init__(self, name: str, output_names: Names, label_names: Names, average: str) -> None:
        if average not in ("macro", "micro"):
            raise ArgumentError(f"[{type(self).__name__}] average: expected macro or micro, got {average!r}")
        self.average = average
        super().__init__(name, output_names, label_names, average=average)

    def reset(self) -> None:
        """Forgets everything."""
        super().reset()
        self._table, self._global_table = np.zeros((2, 2)), np.zeros((2, 2))

    def reset_local(self) -> None:
        """Forgets what came since the last log."""
        super().reset_local()
        self._table = np.zeros((2, 2))

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Counts pairs of label and class of all outputs together; with `average="macro"` they are one score.

        Raises
        ------
        ArgumentError  labels of more than two values, or not one for each prediction
        """
        for label, pred in pairs(labels, preds, self.name):
            seen = self._counted(label, pred)
            self._table += seen
            self._global_table += seen
        if self.average == "macro":
            self._add(self._score(self._table), 1)
            self._table, self._global_table = np.zeros((2, 2)), np.zeros((2, 2))
            return
        self.num_inst, self.global_num_inst = int(self._table.sum()), int(self._global_table.sum())
        self.sum_metric = self._score(self._table) * self.num_inst
        self.global_sum_metric = self._score(self._global_table) * self.global_num_inst

    def _counted(self, label: Any, pred: Any) -> Any:
        y, p = label.asnumpy().astype(np.int64).ravel(), pred.asnumpy()
        chosen = p.argmax(1) if p.ndim > 1 else p.astype(np.int64)
        kind = type(self).__name__
        if y.size != chosen.size:
            raise ArgumentError(f"[{kind}] {y.size} labels for {chosen.size} predictions")
        if len(values := np.unique(y)) > 2:
            raise ArgumentError(f"[{kind}] expected labels of two classes, got {', '.join(map(str, values))}")
        table = np.zeros((2, 2))
        np.add.at(table, ((y == 1).astype(int), (chosen.ravel() == 1).astype(int)), 1)
        return table

    def _score(self, table: Any) -> float:
        raise NotImplementedError


class F1(_Binary):
    """Harmonic mean of precision and recall of class 1 of two.

    Parameters
    ----------
    average : {"macro", "micro"}
        The mean of the scores of batches, or the score of all samples.
    """

    def __init__(
        self, name: str = "f1", output_names: Names = None, label_names: Names = None, average: str = "macro"
    ) -> None:
        super().__init__(name, output_names, label_names, average)

    def _score(self, table: Any) -> float:
        (_, false_alarms), (misses, hits) = table
        denominator = 2 * hits + false_alarms + misses
        return float(2 * hits / denominator) if denominator else 0.0


class MCC(_Binary):
    """Matthews' correlation of two classes, or 0 where labels or classes never vary.

    Parameters
    ----------
    average : {"macro", "micro"}
        The mean over batches, or the correlation of all samples.

    Source: Matthews, Comparison of the predicted and observed secondary structure of T4 phage lysozyme, 1975.
    """

    def __init__(
        self, name: str = "mcc", output_names: Names = None, label_names: Names = None, average: str = "macro"
    ) -> None:
        super().__init__(name, output_names, label_names, average)

    def _score(self, table: Any) -> float:
        return correlation(table, 0.0)
