# SPDX-License-Identifier: Apache-2.0
"""Metrics of regressions, and the plain average of a loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_train.metric.metric import Arrays, EvalMetric, pairs

Names = Sequence[str] | None


class _Error(EvalMetric):
    """Average over batches of an error of each."""

    def error(self, label: Any, pred: Any) -> float:
        """The error of a batch."""
        raise NotImplementedError

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Adds the error of each output."""
        for label, pred in pairs(labels, preds, self.name):
            y, p = label.asnumpy(), pred.asnumpy()
            y = y.reshape(y.shape[0], -1)
            p = p.reshape(p.shape[0], -1)
            self._add(float(self.error(y, p)), 1)


class MAE(_Error):
    """Mean absolute error."""

    def __init__(self, name: str = "mae", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def error(self, label: Any, pred: Any) -> float:
        """|difference|."""
        return float(np.abs(label - pred).mean())


class MSE(_Error):
    """Mean squared error."""

    def __init__(self, name: str = "mse", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def error(self, label: Any, pred: Any) -> float:
        """difference²."""
        return float(np.square(label - pred).mean())


class RMSE(_Error):
    """Root of the mean squared error."""

    def __init__(self, name: str = "rmse", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def error(self, label: Any, pred: Any) -> float:
        """√ of the mean difference²."""
        return float(np.sqrt(np.square(label - pred).mean()))


class PearsonCorrelation(_Error):
    """Correlation of predictions with labels."""

    def __init__(self, name: str = "pearsonr", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def error(self, label: Any, pred: Any) -> float:
        """The coefficient."""
        return float(np.corrcoef(pred.ravel(), label.ravel())[0, 1])


class Loss(EvalMetric):
    """Average of the outputs themselves; labels are not looked at."""

    def __init__(self, name: str = "loss", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Adds outputs up."""
        outputs: Any = preds if isinstance(preds, (list, tuple)) else [preds]
        for pred in outputs:
            values = pred.asnumpy()
            self._add(float(values.sum()), values.size)
