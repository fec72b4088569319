# SPDX-License-Identifier: Apache-2.0
"""LoggingHandler: what happens, as lines of the estimator's logger."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError
from mx_gluon.contrib.estimator.event_handler.events import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    TrainBegin,
    TrainEnd,
)
from mx_gluon.contrib.estimator.metrics import Metrics, listed

if TYPE_CHECKING:
    from mx_gluon.contrib.estimator.estimator import Estimator


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Logs begin and end of trainings, epochs and validations, and every few batches if wanted.

    The lines are MXNet's.

    Parameters
    ----------
    log_interval : int or "epoch"
        After how many batches there is a line; "epoch" has none.
    metrics : EvalMetric or sequence of them
        Whose values are in the lines.
    priority : float
        By default after all other handlers.

    Raises
    ------
    ArgumentError  `log_interval` is neither
    """

    def __init__(
        self, log_interval: int | str = "epoch", metrics: Metrics = None, priority: float = math.inf
    ) -> None:
        if log_interval != "epoch" and not (isinstance(log_interval, int) and log_interval > 0):
            raise ArgumentError(
                f'[LoggingHandler] log_interval: expected a number of batches or "epoch", got {log_interval!r}'
            )
        self.metrics = listed(metrics)
        self.batch_index = 0
        self.current_epoch = 0
        self.processed_samples = 0
        self.priority = priority
        self.log_interval = log_interval
        self.log_interval_time = 0.0
        self.train_start = self.epoch_start = self.batch_start = 0.0

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """A line with the optimizer, and one with how long the training is."""
        self.train_start = time.monotonic()
        trainer = estimator.trainer
        estimator.logger.info(
            "Training begin: using optimizer %s with current learning rate %.4f ",
            type(trainer.optimizer).__name__,
            trainer.learning_rate,
        )
        if estimator.max_epoch:
            estimator.logger.info("Train for %d epochs.", estimator.max_epoch)
        else:
            estimator.logger.info("Train for %d batches.", estimator.max_batch)
        self.current_epoch = 0
        self.batch_index = 0
        self.processed_samples = 0
        self.log_interval_time = 0.0

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """A line with the time in seconds."""
        taken = time.monotonic() - self.train_start
        self._log(estimator, f"Train finished using total {int(taken)}s with {self.current_epoch} epochs. ")

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """A line that says whether it is an epoch or a validation: metrics have "training" in their names or not."""
        self.epoch_start = time.monotonic()
        if any("training" in metric.name for metric in self.metrics):
            estimator.logger.info(
                "[Epoch %d] Begin, current learning rate: %.4f",
                self.current_epoch,
                estimator.trainer.learning_rate,
            )
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """A line with the time in seconds."""
        taken = time.monotonic() - self.epoch_start
        self._log(estimator, f"[Epoch {self.current_epoch}] Finished in {taken:.3f}s, ")
        self.current_epoch += 1
        self.batch_index = 0
        return None

    def batch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Takes the time."""
        self.batch_start = time.monotonic()

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """A line with how many examples there were so far, if it is time."""
        if isinstance(self.log_interval, int):
            self.processed_samples += kwargs["batch"][0].shape[0]
            self.log_interval_time += time.monotonic() - self.batch_start
            if self.batch_index % self.log_interval == 0:
                where = f"[Epoch {self.current_epoch}][Batch {self.batch_index}][Samples {self.processed_samples}]"
                self._log(estimator, f"{where} time/interval: {self.log_interval_time:.3f}s ")
                self.log_interval_time = 0.0
        self.batch_index += 1
        return None

    def _log(self, estimator: Estimator, text: str) -> None:
        """A line that ends with the values of all metrics."""
        for metric in self.metrics:
            text += "{}: {:.4f}, ".format(*metric.get())
        estimator.logger.info("%s", text.rstrip(", "))
