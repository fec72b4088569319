# SPDX-License-Identifier: Apache-2.0
"""Estimator: a network with its loss, metrics and Trainer, and the loop that trains it."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from mx_core.context import Context, cpu, gpu, num_gpus
from mx_core.errors import ArgumentError, MXNetError
from mx_gluon.block import Block
from mx_gluon.contrib.estimator import metrics
from mx_gluon.contrib.estimator.batch_processor import BatchProcessor
from mx_gluon.contrib.estimator.event_handler.events import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EventHandler,
    Handlers,
    TrainBegin,
    TrainEnd,
    listed,
)
from mx_gluon.contrib.estimator.event_handler.log import LoggingHandler
from mx_gluon.contrib.estimator.event_handler.steps import (
    GradientUpdateHandler,
    MetricHandler,
    StoppingHandler,
    ValidationHandler,
)
from mx_gluon.contrib.estimator.metrics import Metrics
from mx_gluon.data import DataLoader
from mx_gluon.errors import RefusedError
from mx_gluon.loss import Loss
from mx_gluon.parameter.filling import Init
from mx_gluon.trainer import Trainer
from mx_train.metric import EvalMetric

Event = TypeVar("Event", bound=EventHandler)


class HandlersByEvent(NamedTuple):
    """Handlers by what they are told of.

    Threads: as its handlers.
    """

    train_begin: list[TrainBegin]
    epoch_begin: list[EpochBegin]
    batch_begin: list[BatchBegin]
    batch_end: list[BatchEnd]
    epoch_end: list[EpochEnd]
    train_end: list[TrainEnd]


class Estimator:
    """Trains and validates a network; handlers are told what happens.

    Threads: one at a time.

    Parameters
    ----------
    net : Block
        Is initialised if it is not.
    loss : Loss
    train_metrics, val_metrics : EvalMetric or sequence of them, optional
        By default the loss, and the accuracy for `SoftmaxCrossEntropyLoss`; copies of them for validation. Their names
        get "training " or "validation " in front.
    initializer : Initializer, optional
        For a network that is not initialised.
    trainer : Trainer, optional
        By default SGD with learning rate 0.001, which warns.
    context : Context or list of them, optional
        By default the first GPU, or else `cpu()`.
    val_net, val_loss : Block, Loss, optional
        Others for validation.
    batch_processor : BatchProcessor, optional
        What computes a batch.

    Attributes
    ----------
    logger : logging.Logger
        Of its own; writes lines to standard output.

    Raises
    ------
    ArgumentError  an argument is of another kind
    RefusedError   there is no such GPU

    Examples
    --------
    >>> estimator = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer)
    >>> estimator.fit(DataLoader(digits, batch_size=32), epochs=3)
    """

    logger: logging.Logger

    def __init__(
        self,
        net: Block,
        loss: Loss,
        train_metrics: Metrics = None,
        val_metrics: Metrics = None,
        initializer: Init = None,
        trainer: Trainer | None = None,
        context: Context | Sequence[Context] | None = None,
        val_net: Block | None = None,
        val_loss: Loss | None = None,
        batch_processor: Any = None,
    ) -> None:
        self.net = net
        self.loss = _checked_loss("loss", loss)
        self._train_metrics = metrics.of_training(train_metrics, self.loss)
        self._val_metrics = metrics.of_validation(val_metrics, self._train_metrics)
        self.val_loss = self.loss if val_loss is None else _checked_loss("val_loss", val_loss)
        self.val_net = net if val_net is None else val_net
        self.logger = logging.Logger("Estimator", logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = _contexts(context)
        self._initialize(initializer)
        self.trainer = self._checked_trainer(trainer)
        self.batch_processor = BatchProcessor() if batch_processor is None else batch_processor
        for method in ("fit_batch", "evaluate_batch"):
            if not callable(getattr(self.batch_processor, method, None)):
                raise ArgumentError(
                    f"[Estimator] batch_processor: expected a method {method}, got {batch_processor!r}"
                )
        self.max_epoch: int | None = None
        self.max_batch: int | None = None
        self.batch_axis = 0

    def _initialize(self, initializer: Init) -> None:
        try:
            for param in self.net.collect_params().values():
                param.list_ctx()
        except MXNetError:
            self.net.initialize(**({"init": initializer} if initializer else {}), ctx=self.context)
            return
        if initializer:
            warnings.warn(
                "[Estimator] initializer: Network already fully initialized; it stays as it is, and "
                "net.initialize(init, force_reinit=True) initialises it again",
                stacklevel=3,
            )

    def _checked_trainer(self, trainer: Trainer | None) -> Trainer:
        if trainer is None:
            warnings.warn(
                "[Estimator] No trainer specified: SGD with learning rate 0.001 trains", stacklevel=3
            )
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise ArgumentError(f"[Estimator] trainer: expected a gluon.Trainer, got {trainer!r}")
        return trainer

    @property
    def train_metrics(self) -> list[EvalMetric]:
        """Metrics of training."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[EvalMetric]:
        """Metrics of validation."""
        return self._val_metrics

    def evaluate(self, val_data: DataLoader, batch_axis: int = 0, event_handlers: Handlers = None) -> None:
        """Computes `val_metrics` of data. Blocks.

        Parameters
        ----------
        val_data : DataLoader
        batch_axis : int
            Along which batches are divided for several contexts.
        event_handlers : EventHandler or sequence of them, optional
            Without their like, a `MetricHandler` and a `LoggingHandler` are added.

        Raises
        ------
        ArgumentError  `val_data` is no DataLoader, or a handler refers to a metric of others
        """
        _check_loader("val_data", val_data)
        for metric in self._val_metrics:
            metric.reset()
        handlers = self._categorize_handlers(self._prepare_default_validation_handlers(event_handlers))
        for begin in handlers.epoch_begin:
            begin.epoch_begin(self)
        for batch in val_data:
            for before in handlers.batch_begin:
                before.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            for after in handlers.batch_end:
                after.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
        for end in handlers.epoch_end:
            end.epoch_end(self)

    def fit(
        self,
        train_data: DataLoader,
        val_data: DataLoader | None = None,
        epochs: int | None = None,
        event_handlers: Handlers = None,
        batches: int | None = None,
        batch_axis: int = 0,
    ) -> None:
        """Trains. Blocks.

        Parameters
        ----------
        train_data : DataLoader
        val_data : DataLoader, optional
            After each epoch its metrics are computed.
        epochs, batches : int
            How many; one of both is given.
        event_handlers : EventHandler or sequence of them, optional
            Without their like, a `GradientUpdateHandler`, a `MetricHandler`, a `ValidationHandler` if there are
            data, and a `LoggingHandler` are added.
        batch_axis : int
            Along which batches are divided for several contexts.

        Raises
        ------
        ArgumentError
            `train_data` is no DataLoader, or has no batch where `batches` are given; both or none of `epochs` and
            `batches` are given; or a handler refers to a metric of others.
        """
        _check_loader("train_data", train_data)
        if (not epochs) == (not batches):
            raise ArgumentError(
                f"[Estimator] fit: expected either epochs or batches, got {epochs} and {batches}"
            )
        for what, count in (("epochs", epochs), ("batches", batches)):
            if count and (count < 1 or count != int(count)):
                raise ArgumentError(
                    f"[Estimator] fit: {what}: expected a whole number from 1 on, got {count}"
                )
        self.max_epoch = epochs
        self.max_batch = batches
        self.batch_axis = batch_axis
        handlers = self._categorize_handlers(self._prepare_default_handlers(val_data, event_handlers))
        for begin in handlers.train_begin:
            begin.train_begin(self)
        while not self._fit_epoch(handlers, train_data):
            pass
        for end in handlers.train_end:
            end.train_end(self)

    def _fit_epoch(self, handlers: HandlersByEvent, train_data: DataLoader) -> bool:
        """Whether the training ends."""
        for begin in handlers.epoch_begin:
            begin.epoch_begin(self)
        batch = None
        for batch in train_data:
            for before in handlers.batch_begin:
                before.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.fit_batch(self, batch, self.batch_axis)
            if any([
                after.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
                for after in handlers.batch_end
            ]):  # fmt: skip
                break
        if batch is None and self.max_batch:
            raise ArgumentError(
                f"[Estimator] fit: train_data has no batch; {self.max_batch} of them would never have been trained"
            )
        return any([end.epoch_end(self) for end in handlers.epoch_end])

    # Programs that extend the class call the next three, as they do in MXNet.

    def _prepare_default_handlers(
        self, val_data: DataLoader | None, event_handlers: Handlers
    ) -> list[EventHandler]:
        """The handlers of a training: the given ones and the default ones, in the order in which they are told."""
        defaults: list[EventHandler] = [GradientUpdateHandler(), MetricHandler(self._train_metrics)]
        if val_data is not None:
            defaults.append(ValidationHandler(val_data, self.evaluate))
        defaults.append(LoggingHandler(metrics=self._train_metrics))
        return self._with_defaults(
            listed(event_handlers),
            defaults,
            [*self._train_metrics, *self._val_metrics],
            [StoppingHandler(self.max_epoch, self.max_batch)],
        )

    def _prepare_default_validation_handlers(self, event_handlers: Handlers) -> list[EventHandler]:
        """The handlers of a validation."""
        return self._with_defaults(
            listed(event_handlers),
            [MetricHandler(self._val_metrics), LoggingHandler(metrics=self._val_metrics)],
            self._val_metrics,
        )

    def _categorize_handlers(self, event_handlers: Sequence[EventHandler]) -> HandlersByEvent:
        """The handlers that want to be told of each event."""
        return HandlersByEvent(
            _of(event_handlers, TrainBegin),
            _of(event_handlers, EpochBegin),
            _of(event_handlers, BatchBegin),
            _of(event_handlers, BatchEnd),
            _of(event_handlers, EpochEnd),
            _of(event_handlers, TrainEnd),
        )

    def _with_defaults(
        self,
        given: list[EventHandler],
        defaults: Sequence[EventHandler],
        known: Sequence[EvalMetric],
        always: Sequence[EventHandler] = (),
    ) -> list[EventHandler]:
        """The given handlers, further ones, and default ones that have no like among the given, by priority."""
        added = [*always, *(each for each in defaults if not any(isinstance(o, type(each)) for o in given))]
        for handler in given if added else ():
            metrics.check_known(handler, known)
        return sorted([*given, *added], key=lambda handler: float(getattr(handler, "priority", 0)))


def _of(handlers: Sequence[EventHandler], event: type[Event]) -> list[Event]:
    """Those that want to be told of an event."""
    return [each for each in handlers if isinstance(each, event)]


def _checked_loss(name: str, loss: Any) -> Loss:
    if not isinstance(loss, Loss):
        raise ArgumentError(f"[Estimator] {name}: expected a gluon.loss.Loss, got {loss!r}")
    return loss


def _check_loader(name: str, loader: Any) -> None:
    if not isinstance(loader, DataLoader):
        raise ArgumentError(
            f"[Estimator] {name}: expected a gluon.data.DataLoader, got {loader!r}; put arrays into a "
            "gluon.data.ArrayDataset"
        )


def _contexts(context: Any) -> list[Context]:
    if not context:
        gpus = num_gpus()
        if gpus > 1:
            warnings.warn(
                f"[Estimator] context: the first of {gpus} GPUs is used; give a list for more", stacklevel=3
            )
        return [gpu(0) if gpus else cpu()]
    found = [context] if isinstance(context, Context) else list(context)
    for each in found:
        if not isinstance(each, Context):
            raise ArgumentError(f"[Estimator] context: expected contexts, such as mx.cpu(), got {each!r}")
        if each.device_type == "gpu" and each.device_id >= (gpus := num_gpus()):
            raise RefusedError(f"[Estimator] context: {each} is not here, where there are {gpus} GPUs")
    return found
