# SPDX-License-Identifier: Apache-2.0
"""Metrics of regressions, and the plain average of a loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
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
    """Correlation of predictions with labels.

    Parameters
    ----------
    average : {"macro", "micro"}
        The mean over batches, or the correlation of all samples.
    """

    def __init__(
        self,
        name: str = "pearsonr",
        output_names: Names = None,
        label_names: Names = None,
        average: str = "macro",
    ) -> None:
        if average not in ("macro", "micro"):
            raise ArgumentError(f"[PearsonCorrelation] average: expected macro or micro, got {average!r}")
        self.average = average
        super().__init__(name, output_names, label_names, average=average)

    def reset(self) -> None:
        """Forgets everything."""
        super().reset()
        self._moments = self._global_moments = np.zeros((3, 3))

    def reset_local(self) -> None:
        """Forgets what came since the last log."""
        super().reset_local()
        self._moments = np.zeros((3, 3))

    def error(self, label: Any, pred: Any) -> float:
        """The coefficient of a batch; its sums of products are kept."""
        rows = np.stack([np.ones(label.size), label.ravel(), pred.ravel()]).astype(np.float64)
        self._moments, self._global_moments = (
            self._moments + rows @ rows.T,
            self._global_moments + rows @ rows.T,
        )
        return float(np.corrcoef(pred.ravel(), label.ravel())[0, 1]) if self.average == "macro" else 0.0

    def get(self) -> tuple[Any, Any]:
        """Name and value since the last log."""
        return super().get() if self.average == "macro" else (self.name, _coefficient(self._moments))

    def get_global(self) -> tuple[Any, Any]:
        """Name and value since the last reset."""
        return (
            super().get_global()
            if self.average == "macro"
            else (self.name, _coefficient(self._global_moments))
        )


def _coefficient(moments: Any) -> float:
    """From the sums of products of 1, label and prediction."""
    count = moments[0, 0]
    if not count:
        return float("nan")
    mean = moments[0, 1:] / count
    spread = moments[1:, 1:] / count - np.outer(mean, mean)
    with np.errstate(invalid="ignore"):
        return float(spread[0, 1] / np.sqrt(spread[0, 0] * spread[1, 1]))


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


class Torch(Loss):
    """`Loss` under the name of outputs that a criterion of Torch computed."""

    def __init__(self, name: str = "torch", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)


class Caffe(Loss):
    """`Loss` under the name of outputs that a loss layer of Caffe computed."""

    def __init__(self, name: str = "caffe", output_names: Names = None, label_names: Names = None) -> None:
        super().__init__(name, output_names, label_names)
