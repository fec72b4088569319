# SPDX-License-Identifier: Apache-2.0
"""Handlers without which nothing is trained: steps, metrics, validation, and the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mx_gluon.contrib.estimator.event_handler.events import (
    BatchEnd,
    EpochBegin,
    EpochEnd,
    Handlers,
    TrainBegin,
)
from mx_gluon.contrib.estimator.metrics import Metrics, listed
from mx_train.metric import Loss

if TYPE_CHECKING:
    from mx_gluon.contrib.estimator.estimator import Estimator


class GradientUpdateHandler(BatchEnd):
    """Makes a step of the Trainer after each batch.

    Parameters
    ----------
    priority : float
        By default before all other handlers of MXNet's.
    """

    def __init__(self, priority: float = -2000) -> None:
        self.priority = priority

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """A step, of as many examples as there are losses."""
        loss = kwargs["loss"]
        estimator.trainer.step(sum(each.shape[0] for each in (loss if isinstance(loss, list) else [loss])))
        return None


class MetricHandler(EpochBegin, BatchEnd):
    """Updates metrics with each batch, and resets them when an epoch begins.

    Parameters
    ----------
    metrics : EvalMetric or sequence of them
        A `metric.Loss` gets the losses, others labels and what the network returned.
    priority : float
    """

    def __init__(self, metrics: Metrics, priority: float = -1000) -> None:
        self.metrics = listed(metrics)
        self.priority = priority

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Resets all."""
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """Updates all; waits for the batch."""
        for metric in self.metrics:
            if isinstance(metric, Loss):
                metric.update((), kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])
        return None


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Validates after every few epochs or batches.

    Parameters
    ----------
    val_data : DataLoader
    eval_fn : callable
        Such as `Estimator.evaluate`; it gets `val_data`, `batch_axis` and `event_handlers`.
    epoch_period, batch_period : int, optional
        After how many; None is never.
    priority : float
    event_handlers : EventHandler or sequence of them, optional
        Of the validation.
    """

    def __init__(
        self,
        val_data: Any,
        eval_fn: Callable[..., Any],
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        priority: float = -1000,
        event_handlers: Handlers = None,
    ) -> None:
        self.val_data = val_data
        self.eval_fn = eval_fn
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = 0
        self.current_epoch = 0
        self.priority = priority
        self.event_handlers = event_handlers

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Counts from 0."""
        self.current_batch = 0
        self.current_epoch = 0

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """Validates if it is time."""
        self.current_batch += 1
        self._validate(estimator, self.current_batch, self.batch_period)
        return None

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """Validates if it is time."""
        self.current_epoch += 1
        self._validate(estimator, self.current_epoch, self.epoch_period)
        return None

    def _validate(self, estimator: Estimator, count: int, period: int | None) -> None:
        if period and count % period == 0:
            self.eval_fn(
                val_data=self.val_data, batch_axis=estimator.batch_axis, event_handlers=self.event_handlers
            )


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Stops after as many epochs or batches as `Estimator.fit` was told.

    Parameters
    ----------
    max_epoch, max_batch : int, optional
        Are replaced by those of the estimator when a training begins.
    """

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None) -> None:
        self.max_epoch = max_epoch
        self.max_batch = max_batch
        self.current_batch = 0
        self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Counts from 0."""
        self.max_epoch = estimator.max_epoch
        self.max_batch = estimator.max_batch
        self.current_batch = 0
        self.current_epoch = 0
        self.stop_training = False

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """Whether that was the last batch."""
        self.current_batch += 1
        if self.current_batch == self.max_batch:
            self.stop_training = True
        return self.stop_training

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """Whether that was the last epoch."""
        self.current_epoch += 1
        if self.current_epoch == self.max_epoch:
            self.stop_training = True
        return self.stop_training
