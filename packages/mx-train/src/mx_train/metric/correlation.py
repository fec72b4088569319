# SPDX-License-Identifier: Apache-2.0
"""Correlation of labels and predicted classes, from the table of how often each pair came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_train.metric.metric import Arrays, EvalMetric, pairs

Names = Sequence[str] | None


class PCC(EvalMetric):
    """Correlation of any number of classes; of two it is `MCC`. It is NaN where labels or classes never vary.

    Source: Gorodkin, Comparing two K-category assignments by a K-category correlation coefficient, 2004.
    """

    def __init__(self, name: str = "pcc", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def reset(self) -> None:
        """Forgets everything."""
        super().reset()
        self._table = self._global_table = np.zeros((0, 0))

    def reset_local(self) -> None:
        """Forgets what came since the last log."""
        super().reset_local()
        self._table = np.zeros((0, 0))

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Counts pairs of label and class."""
        for label, pred in pairs(labels, preds, self.name):
            seen = _counted(label, pred)
            self._table, self._global_table = _sum(self._table, seen), _sum(self._global_table, seen)
        self.num_inst += 1
        self.global_num_inst += 1
        self.sum_metric = correlation(self._table, float("nan")) * self.num_inst
        self.global_sum_metric = correlation(self._global_table, float("nan")) * self.global_num_inst


def _counted(label: Any, pred: Any) -> Any:
    """Rows are labels, columns classes."""
    y, p = label.asnumpy().astype(np.int64).ravel(), pred.asnumpy()
    chosen = p.argmax(1) if p.ndim > 1 else p.astype(np.int64)
    if y.size != chosen.size:
        raise ArgumentError(f"[correlation] {y.size} labels for {chosen.size} predictions")
    if y.size and min(y.min(), chosen.min()) < 0:
        raise ArgumentError(f"[correlation] expected classes from 0 on, got {min(y.min(), chosen.min())}")
    size = int(max(y.max(initial=0), chosen.max(initial=0), (p.shape[1] if p.ndim > 1 else 1) - 1)) + 1
    table = np.zeros((size, size))
    np.add.at(table, (y, chosen), 1)
    return table


def _sum(a: Any, b: Any) -> Any:
    size = max(len(a), len(b))
    total = np.zeros((size, size))
    for table in (a, b):
        total[: len(table), : len(table)] += table
    return total


def correlation(table: Any, undefined: float) -> float:
    """Of labels (rows) and classes (columns); `undefined` where one of them never varies."""
    total, hits = table.sum(), np.trace(table)
    of_labels, of_classes = table.sum(1), table.sum(0)
    spread = (total**2 - (of_classes**2).sum()) * (total**2 - (of_labels**2).sum())
    return float((hits * total - of_labels @ of_classes) / np.sqrt(spread)) if spread > 0 else undefined
