# SPDX-License-Identifier: Apache-2.0
"""CheckpointHandler: parameters and states of the Trainer in files, from which a training goes on."""

from __future__ import annotations

import math
import os
import re
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError
from mx_core.files import atomic_group
from mx_gluon.contrib.estimator.event_handler.events import BatchEnd, EpochEnd, TrainBegin
from mx_gluon.contrib.estimator.event_handler.improvement import better, worst
from mx_gluon.errors import RefusedError
from mx_train.metric import EvalMetric

if TYPE_CHECKING:
    from mx_gluon.contrib.estimator.estimator import Estimator


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves after every few epochs or batches.

    Files are `PREFIX-epochEbatchB.params` and `.states`, `PREFIX-best.params` and `.states`, and `PREFIX-symbol.json`
    of a hybridised network. Each takes the place of an older one at once. The `.params` come last: a process that is
    killed leaves no checkpoint without its states. `load_parameters` of a network of the same structure reads them;
    for `SymbolBlock.imports` the network is exported.

    Parameters
    ----------
    model_dir : path
        Folder of the files; it is made if it is not there.
    model_prefix : str
    monitor : EvalMetric, optional
        Which tells what is best.
    verbose : int
        Above 0: a line for each checkpoint.
    save_best : bool
        Whether the best is saved, too.
    mode : {"auto", "min", "max"}
        Which values are better, as for `EarlyStoppingHandler`.
    epoch_period, batch_period : int, optional
        After how many epochs or batches; None is never.
    max_checkpoints : int
        How many of this training are left; older ones are removed.
    resume_from_checkpoint : bool
        Go on from the last checkpoint in the folder. What `fit` is told to train counts what was trained before.

    Raises
    ------
    ArgumentError  `save_best` without a metric
    FileError      later, when files cannot be written
    """

    def __init__(
        self,
        model_dir: str | os.PathLike[str],
        model_prefix: str = "model",
        monitor: EvalMetric | None = None,
        verbose: int = 0,
        save_best: bool = False,
        mode: str = "auto",
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        max_checkpoints: int = 5,
        resume_from_checkpoint: bool = False,
    ) -> None:
        self.monitor = monitor
        self.verbose = verbose
        os.makedirs(model_dir, exist_ok=True)
        self.model_dir = os.fspath(model_dir)
        self.model_prefix = model_prefix
        self.save_best = save_best
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = 0
        self.current_epoch = 0
        self.max_checkpoints = max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.saved_checkpoints: list[str] = []
        #: numbers of the checkpoint from which the training goes on; −1 without
        self.trained_epoch = self.trained_batch = -1
        if save_best:
            if not isinstance(monitor, EvalMetric):
                raise ArgumentError(
                    "[CheckpointHandler] monitor: save_best needs one of the estimator's train_metrics or "
                    f"val_metrics, got {monitor!r}"
                )
            self.monitor_op = better(mode, monitor, "CheckpointHandler")
            self.best = worst(self.monitor_op)

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Reads the last checkpoint if the training is to go on from it.

        Raises
        ------
        RefusedError   checkpoints of epochs for a training of batches, or the other way round
        ArgumentError  the last checkpoint is where the training would end
        """
        self.current_epoch = 0
        self.current_batch = 0
        self.trained_epoch = self.trained_batch = -1
        if self.save_best:
            self.best = worst(self.monitor_op)
        if not self.resume_from_checkpoint:
            return
        of_batches = bool(estimator.max_batch)
        if bool(self.batch_period) != of_batches or bool(self.epoch_period) == of_batches:
            unit, other = ("batch", "epoch") if of_batches else ("epoch", "batch")
            raise RefusedError(
                f"[CheckpointHandler] resume_from_checkpoint: a training told its number of {unit}es needs "
                f"{unit}_period, and {other}_period=None; got {unit}_period={getattr(self, unit + '_period')}, "
                f"{other}_period={getattr(self, other + '_period')}".replace("epoches", "epochs")
            )
        self._resume(estimator)

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """Saves if it is time; after the first batch the network's graph."""
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator)
        self.current_batch += 1
        return None

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """Saves if it is time."""
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator)
        self.current_epoch += 1
        return None

    def _save_checkpoint(self, estimator: Estimator) -> None:
        epoch, batch = self.current_epoch, self.current_batch
        if self.resume_from_checkpoint:
            epoch += self.trained_epoch + 1
            batch += self.trained_batch + (not estimator.max_epoch)
        prefix = f"{self.model_prefix}-epoch{epoch}batch{batch}"
        self._save_files(estimator, prefix)
        self.saved_checkpoints.append(prefix)
        if len(self.saved_checkpoints) > self.max_checkpoints:
            oldest = self.saved_checkpoints.pop(0)
            for kind in (".params", ".states"):
                with suppress(FileNotFoundError):
                    os.remove(self._path(oldest + kind))
        if self.verbose > 0:
            estimator.logger.info(
                "[Epoch %d] CheckpointHandler: trained total %d batches, saving model at %s with prefix: %s",
                self.current_epoch,
                self.current_batch + 1,
                self.model_dir,
                prefix,
            )
        if self.save_best:
            self._save_best(estimator)

    def _save_best(self, estimator: Estimator) -> None:
        assert self.monitor is not None
        name, value = self.monitor.get()
        if math.isnan(value):
            warnings.warn(
                f"[CheckpointHandler] save_best: {name!r} has no value: monitor one of the estimator's metrics",
                RuntimeWarning,
                stacklevel=2,
            )
        elif self.monitor_op(value, self.best):
            prefix = self.model_prefix + "-best"
            self._save_files(estimator, prefix)
            before, self.best = self.best, value
            if self.verbose > 0:
                estimator.logger.info(
                    "[Epoch %d] CheckpointHandler: %s improved from %0.5f to %0.5f, updating best model at %s with "
                    "prefix: %s",
                    self.current_epoch,
                    name,
                    before,
                    value,
                    self.model_dir,
                    prefix,
                )
        elif self.verbose > 0:
            estimator.logger.info(
                "[Epoch %d] CheckpointHandler: %s did not improve from %0.5f, skipping updating best model",
                self.current_epoch,
                name,
                self.best,
            )

    def _path(self, name: str) -> Path:
        return Path(self.model_dir, name)

    def _save_symbol(self, estimator: Estimator) -> None:
        graph = getattr(estimator.net, "_cached_graph", ())
        file = os.path.join(self.model_dir, f"{self.model_prefix}-symbol.json")
        if graph:
            graph[1].save(file)
            return
        estimator.logger.info(
            "Model architecture(symbol file) is not saved, please use HybridBlock to construct your model, and call "
            "net.hybridize() before passing to Estimator in order to save model architecture as %s.",
            file,
        )

    def _save_files(self, estimator: Estimator, prefix: str) -> None:
        """Both files of a checkpoint; the parameters appear last."""
        with atomic_group(self._path(prefix + ".states"), self._path(prefix + ".params")) as (states, params):
            estimator.trainer.save_states(str(states))
            estimator.net.save_parameters(str(params))

    def _last(self) -> tuple[int, int]:
        """Epoch and batch of the last checkpoint in the folder; −1 without one."""
        pattern = re.compile(re.escape(self.model_prefix) + r"-epoch(\d+)batch(\d+)\.params", re.ASCII)
        found = [pattern.fullmatch(name) for name in os.listdir(self.model_dir)]
        return max(((int(each[1]), int(each[2])) for each in found if each), default=(-1, -1))

    def _resume(self, estimator: Estimator) -> None:
        """Takes the last checkpoint, and shortens the training by what was trained before."""
        epoch, batch = self.trained_epoch, self.trained_batch = self._last()
        unit, wanted, trained = "epochs", estimator.max_epoch, epoch
        if estimator.max_batch:
            unit, wanted, trained = "batches", estimator.max_batch, batch
        assert wanted is not None
        if epoch == -1:
            estimator.logger.info(
                "CheckpointHandler: No checkpoint found, training from scratch for %d %s", wanted, unit
            )
            return
        prefix = f"{self.model_prefix}-epoch{epoch}batch{batch}"
        if trained >= wanted - 1:
            raise ArgumentError(
                f"[CheckpointHandler] resume_from_checkpoint: {self._path(prefix + '.params')} has been trained for "
                f"{trained + 1} {unit} already, as long as the training is told to last: {wanted}; tell a larger "
                "number, or give resume_from_checkpoint=False"
            )
        for kind in (".params", ".states"):
            if not self._path(prefix + kind).exists():
                raise RefusedError(
                    f"[CheckpointHandler] resume_from_checkpoint: {self._path(prefix + kind)} does not exist; remove "
                    "what is left of this checkpoint"
                )
        estimator.net.load_parameters(self._path(prefix + ".params"), ctx=estimator.context)
        estimator.trainer.load_states(self._path(prefix + ".states"))
        left = wanted - trained - 1
        if estimator.max_batch:
            estimator.max_batch = left
        else:
            estimator.max_epoch = left
        estimator.logger.warning(
            "CheckpointHandler: Checkpoint resumed from epoch %d batch %d, continue to train for %d %s ",
            epoch,
            batch,
            left,
            unit,
        )
