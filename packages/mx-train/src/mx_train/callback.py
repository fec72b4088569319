# SPDX-License-Identifier: Apache-2.0
"""Callbacks during training: progress, logs, checkpoints."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

from mx_train import model
from mx_train.learning_curve import LearningCurve as LearningCurve


class Speedometer:
    """Logs samples per second, and the metric with the batches that it is of, every `frequent` batches.

    Threads: one at a time.

    Parameters
    ----------
    batch_size : int
        Samples per batch.
    frequent : int
        Batches between two lines.
    auto_reset : bool
        Metrics start anew after each line.
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True) -> None:
        self.batch_size = batch_size
        self.frequent = frequent
        self.auto_reset = auto_reset
        self.init = False
        self.tic = 0.0
        self.last_count = 0

    def __call__(self, param: model.BatchEndParam) -> None:
        """After each batch."""
        if param.nbatch < self.last_count:
            self.init = False
        self.last_count = param.nbatch
        if not self.init:
            self.init = True
            self.tic = time.perf_counter()
            return
        if param.nbatch % self.frequent:
            return
        speed = self.frequent * self.batch_size / max(time.perf_counter() - self.tic, 1e-9)
        epoch, batch, metric = param.epoch, param.nbatch, param.eval_metric
        if metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", epoch, batch, speed)
        else:
            shown = "".join(f"\t{name}={value:f}" for name, value in metric.get_name_value())
            first = batch - self.frequent if self.auto_reset else 0
            if self.auto_reset:
                metric.reset_local()
            logging.info(
                "Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec%s", epoch, first, batch, speed, shown
            )
        self.tic = time.perf_counter()


class ProgressBar:
    """Logs after each batch, as a bar and in percent, how many batches of the epoch came before it.

    Threads: one at a time.

    Parameters
    ----------
    total : int
        Batches per epoch.
    length : int
        Characters of a full bar.
    """

    def __init__(self, total: int, length: int = 80) -> None:
        self.total = total
        self.bar_len = length

    def __call__(self, param: model.BatchEndParam) -> None:
        """After each batch."""
        filled = round(self.bar_len * param.nbatch / self.total)
        bar = "=" * filled + "-" * (self.bar_len - filled)
        logging.info("[%s] %d%%\r", bar, math.ceil(100.0 * param.nbatch / self.total))


class LogValidationMetricsCallback:
    """Logs the metrics of a validation. Threads: one at a time."""

    def __call__(self, param: model.BatchEndParam) -> None:
        """After each epoch's validation."""
        if param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[model.BatchEndParam], None]:
    """A callback that logs the training metric every `period` batches."""

    def callback(param: model.BatchEndParam) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value)
            if auto_reset:
                param.eval_metric.reset_local()

    return callback


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """A callback that saves `prefix-symbol.json` and `prefix-NNNN.params` every `period` epochs."""
    every = max(1, int(period))

    def callback(epoch: int, symbol: Any, arg: dict[str, Any], aux: dict[str, Any]) -> None:
        if (epoch + 1) % every == 0:
            model.save_checkpoint(prefix, epoch + 1, symbol, arg, aux)

    return callback


def module_checkpoint(
    mod: Any, prefix: str, period: int = 1, save_optimizer_states: bool = False
) -> Callable[..., None]:
    """As `do_checkpoint`, of a module, optionally with the optimizer's states."""
    every = max(1, int(period))

    def callback(epoch: int, symbol: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (epoch + 1) % every == 0:
            mod.save_checkpoint(prefix, epoch + 1, save_optimizer_states)

    return callback
