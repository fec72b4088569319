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
    """Correlation of any number of classes; of two it is `MCC`.

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
            self._add(0.0, 1)

    def get(self) -> tuple[Any, Any]:
        """Name and correlation since the last log."""
        return self.name, correlation(self._table, float("nan"))

    def get_global(self) -> tuple[Any, Any]:
        """Name and correlation since the last reset."""
        return self.name, correlation(self._global_table, float("nan"))


class MCC(EvalMetric):
    """Matthews' correlation of two classes.

    Parameters
    ----------
    average : {"macro", "micro"}
        The mean over batches, or the correlation of all samples.

    Source: Matthews, Comparison of the predicted and observed secondary structure of T4 phage lysozyme, 1975.
    """

    def __init__(
        self, name: str = "mcc", output_names: Names = None, label_names: Names = None, average: str = "macro"
    ) -> None:
        if average not in ("macro", "micro"):
            raise ArgumentError(f"[MCC] average: expected macro or micro, got {average!r}")
        self.average = average
        super().__init__(name, output_names, label_names, average=average)

    def reset(self) -> None:
        """Forgets everything."""
        super().reset()
        self._table = self._global_table = np.zeros((2, 2))

    def reset_local(self) -> None:
        """Forgets what came since the last log."""
        super().reset_local()
        self._table = np.zeros((2, 2))

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Counts pairs of label and class.

        Raises
        ------
        ArgumentError  a label is neither 0 nor 1
        """
        for label, pred in pairs(labels, preds, self.name):
            seen = _counted(label, pred)
            if len(seen) > 2:
                raise ArgumentError(f"[MCC] expected two classes, got {len(seen)}")
            self._table, self._global_table = _sum(self._table, seen), _sum(self._global_table, seen)
            self._add(correlation(seen, 0.0), 1)

    def get(self) -> tuple[Any, Any]:
        """Name and value since the last log."""
        return super().get() if self.average == "macro" else (self.name, self._micro(self._table))

    def get_global(self) -> tuple[Any, Any]:
        """Name and value since the last reset."""
        return (
            super().get_global() if self.average == "macro" else (self.name, self._micro(self._global_table))
        )

    def _micro(self, table: Any) -> float:
        return correlation(table, 0.0) if table.any() else float("nan")


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
