# SPDX-License-Identifier: Apache-2.0
"""EarlyStoppingHandler: the end of a training that does not improve any more."""

from __future__ import annotations

import math
import operator
import warnings
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError
from mx_gluon.contrib.estimator.event_handler.events import EpochEnd, TrainBegin, TrainEnd
from mx_gluon.contrib.estimator.event_handler.improvement import better, worst
from mx_train.metric import CompositeEvalMetric, EvalMetric

if TYPE_CHECKING:
    from mx_gluon.contrib.estimator.estimator import Estimator


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Stops when a metric has not improved for some epochs.

    Parameters
    ----------
    monitor : EvalMetric
        One of the estimator's.
    min_delta : float
        By how much it must be better to count.
    patience : int
        After how many epochs without improvement the training stops.
    mode : {"auto", "min", "max"}
        Which values are better; "auto" goes by the name: larger ones of accuracy and F1, smaller ones of others.
    baseline : float, optional
        That the first epochs must improve on.

    Raises
    ------
    ArgumentError  `monitor` is no metric, or a composite one
    """

    def __init__(
        self,
        monitor: EvalMetric,
        min_delta: float = 0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
    ) -> None:
        if not isinstance(monitor, EvalMetric) or isinstance(monitor, CompositeEvalMetric):
            raise ArgumentError(
                f"[EarlyStoppingHandler] monitor: expected one of the estimator's train_metrics or val_metrics, "
                f"got {monitor!r}"
            )
        self.monitor = monitor
        self.baseline = baseline
        self.patience = patience
        self.wait = 0
        self.stopped_epoch = 0
        self.current_epoch = 0
        self.stop_training = False
        self.monitor_op = better(mode, monitor, "EarlyStoppingHandler")
        self.min_delta = min_delta if self.monitor_op is operator.gt else -min_delta
        self.best = worst(self.monitor_op)

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Forgets what was best."""
        self.wait = 0
        self.stopped_epoch = 0
        self.current_epoch = 0
        self.stop_training = False
        self.best = worst(self.monitor_op) if self.baseline is None else self.baseline

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """Whether there was no improvement for too long."""
        name, value = self.monitor.get()
        if math.isnan(value):
            warnings.warn(
                f"[EarlyStoppingHandler] {name!r} has no value: monitor one of the estimator's metrics",
                RuntimeWarning,
                stacklevel=2,
            )
        elif self.monitor_op(value - self.min_delta, self.best):
            self.best = value
            self.wait = 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = self.current_epoch
                self.stop_training = True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """A line that says why, in MXNet's spelling."""
        if self.stop_training:
            estimator.logger.info(
                "[Epoch %d] EarlyStoppingHanlder: early stopping due to %s not improving",
                self.stopped_epoch,
                self.monitor.get()[0],
            )
