# SPDX-License-Identifier: Apache-2.0
"""BaseModule: fit, score and predict in terms of forward, backward and update."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mx_core.errors import ArgumentError, MXNetError
from mx_core.imports import lazy
from mx_io.io import DataBatch, DataDesc, DataIter
from mx_ndarray import NDArray, nd
from mx_symbol.symbol import Symbol
from mx_train import metric as metrics
from mx_train import model
from mx_train.arguments import (
    Callback,
    Callbacks,
    Filler,
    Gradients,
    Logger,
    Metric,
    OptimizerLike,
    Settings,
    Shapes,
    Store,
)
from mx_train.checkpoint.watched import Watched
from mx_train.initializer import Uniform
from mx_train.metric import EvalMetric
from mx_train.model import BatchEndParam
from mx_train.module.sliced_batch import is_sliced, pad_of, slices_of
from mx_train.monitor import Monitor


def as_list(value: Any) -> list[Any]:
    """None, one thing or a list of things as a list."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def warn_of_kept_parameters() -> None:
    """Warns the caller of `init_params` that its arguments have no effect."""
    warnings.warn(
        "[Module.init_params] ignored: parameters are initialized already, and force_init is False",
        stacklevel=3,
    )


class BaseModule:
    """What every module can do, in terms of bind, forward, backward, update. Threads: one at a time."""

    def __init__(self, logger: Logger = logging) -> None:
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False

    @property
    def symbol(self) -> Symbol | None:
        """The symbol; None where the module has none."""
        return None

    # ---- one batch ----

    def forward_backward(self, data_batch: DataBatch) -> None:
        """forward in training mode, then backward."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Computes outputs; asynchronous."""
        raise NotImplementedError

    def backward(self, out_grads: Gradients = None) -> None:
        """Computes gradients; asynchronous."""
        raise NotImplementedError

    def update(self) -> None:
        """Applies the optimizer; asynchronous."""
        raise NotImplementedError

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Outputs of the last forward; of each context apart without merge_multi_context."""
        raise NotImplementedError

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients with respect to the data."""
        raise NotImplementedError

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """States that one batch hands to the next; none by default."""
        return []

    def set_states(
        self,
        states: Sequence[NDArray] | Sequence[Sequence[NDArray]] | None = None,
        value: float | None = None,
    ) -> None:
        """Sets such states; by default there are none."""
        if states or value is not None:
            raise ArgumentError(f"[{type(self).__name__}] has no states")

    def update_metric(
        self, eval_metric: EvalMetric, labels: Sequence[NDArray], pre_sliced: bool = False
    ) -> None:
        """Adds the last forward to a metric."""
        raise NotImplementedError

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Callback | None = None) -> None:
        """Called before a batch is used; nothing to do for dense parameters."""

    # ---- whole iterators ----

    def score(
        self,
        eval_data: DataIter,
        eval_metric: Metric,
        num_batch: int | None = None,
        batch_end_callback: Callbacks = None,
        score_end_callback: Callbacks = None,
        reset: bool = True,
        epoch: int = 0,
        sparse_row_id_fn: Callback | None = None,
    ) -> list[tuple[str, float]]:
        """The value of a metric over the batches of an iterator; blocks.

        Parameters
        ----------
        eval_data : DataIter
        eval_metric : metric, name, or list of these
        num_batch : int, optional
            At most so many batches.
        reset : bool
            Whether the iterator begins anew first.

        Returns
        -------
        list of (name, value)
        """
        self._require(params=True)
        eval_metric = metrics.create(eval_metric)
        eval_metric.reset()
        if reset:
            eval_data.reset()
        actual_num_batch = 0  # callbacks see this name and those below among the locals, as in MXNet
        for nbatch, eval_batch in enumerate(eval_data):
            if num_batch is not None and nbatch == num_batch:
                break
            self.prepare(eval_batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(eval_batch, is_train=False)
            self._metric_without_pad(eval_metric, eval_batch)
            param = BatchEndParam(epoch, nbatch, eval_metric, locals())
            for callback in as_list(batch_end_callback):
                callback(param)
            actual_num_batch += 1
        for callback in as_list(score_end_callback):
            callback(BatchEndParam(epoch, actual_num_batch, eval_metric, locals()))
        result: list[tuple[str, float]] = eval_metric.get_global_name_value()
        return result

    def _add_batch(self, eval_metric: EvalMetric, batch: Any) -> None:
        """Adds the last forward to a metric, padding included."""
        labels: list[Any] = [getattr(part, "label", None) or [] for part in slices_of(batch)]
        if is_sliced(batch):
            self.update_metric(eval_metric, labels, pre_sliced=True)
        else:
            self.update_metric(eval_metric, labels[0])

    def _metric_without_pad(self, eval_metric: EvalMetric, batch: Any) -> None:
        parts = slices_of(batch)
        if not any(map(pad_of, parts)):
            self._add_batch(eval_metric, batch)
            return
        names = [description.name for description in self.label_shapes or ()]
        for part, outputs in zip(parts, self._outputs_without_pad(batch), strict=True):
            labels = [x[: x.shape[0] - pad_of(part)] for x in part.label or ()]
            eval_metric.update_dict(
                dict(zip(names, labels, strict=False)), dict(zip(self.output_names, outputs, strict=True))
            )

    def _outputs_without_pad(self, batch: Any) -> list[list[NDArray]]:
        """Outputs of the last forward for each part of its batch."""
        parts = slices_of(batch)
        if is_sliced(batch):
            outputs = list(zip(*self.get_outputs(merge_multi_context=False), strict=True))
        else:
            outputs = [tuple(self.get_outputs())]
        return [
            [o[: o.shape[0] - pad_of(part)] for o in each] for part, each in zip(parts, outputs, strict=True)
        ]

    def iter_predict(
        self,
        eval_data: DataIter,
        num_batch: int | None = None,
        reset: bool = True,
        sparse_row_id_fn: Callback | None = None,
    ) -> Iterator[tuple[list[NDArray], int, DataBatch]]:
        """Yields (outputs without padding, batch number, batch)."""
        self._require(params=True)
        if reset:
            eval_data.reset()
        for nbatch, batch in enumerate(eval_data):
            if num_batch is not None and nbatch == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(batch, is_train=False)
            parts = zip(*self._outputs_without_pad(batch), strict=True)
            yield [each[0] if len(each) == 1 else nd.concat(*each, dim=0) for each in parts], nbatch, batch

    def predict(
        self,
        eval_data: DataIter,
        num_batch: int | None = None,
        merge_batches: bool = True,
        reset: bool = True,
        always_output_list: bool = False,
        sparse_row_id_fn: Callback | None = None,
    ) -> Any:
        """Outputs over the batches of an iterator, or of one array, without padding examples.

        Parameters
        ----------
        eval_data : DataIter or array
        num_batch : int, optional
            At most so many batches.
        merge_batches : bool
            Whether batches are joined along the first axis.
        reset : bool
            Whether the iterator begins anew first.
        always_output_list : bool
            Whether a single output is a list, too.

        Returns
        -------
        NDArray, or list of NDArray when there are several outputs (or always_output_list);
        without merge_batches a list of lists, one per batch
        """
        self._require(params=True)
        if not hasattr(eval_data, "reset"):
            data = eval_data if isinstance(eval_data, NDArray) else nd.array(eval_data)
            self.forward(DataBatch([data], None))
            return self.get_outputs()[0]
        batches = [
            [o.copy() for o in outputs] for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset)
        ]
        if not batches or not merge_batches:
            return batches
        if len({len(b) for b in batches}) > 1:
            raise ArgumentError("[Module] batches differ in their number of outputs; use merge_batches=False")
        merged = [nd.concat(*each, dim=0) for each in zip(*batches, strict=True)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def fit(
        self,
        train_data: DataIter,
        eval_data: DataIter | None = None,
        eval_metric: Metric = "acc",
        epoch_end_callback: Callbacks = None,
        batch_end_callback: Callbacks = None,
        kvstore: Store = "local",
        optimizer: OptimizerLike = "sgd",
        optimizer_params: Settings = (("learning_rate", 0.01),),
        eval_end_callback: Callbacks = None,
        eval_batch_end_callback: Callbacks = None,
        initializer: Filler | None = None,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_rebind: bool = False,
        force_init: bool = False,
        begin_epoch: int = 0,
        num_epoch: int | None = None,
        validation_metric: Metric | None = None,
        monitor: Monitor | None = None,
        sparse_row_id_fn: Callback | None = None,
    ) -> None:
        """Trains for some epochs; blocks until the last one is done.

        It binds the module, initializes its parameters and its optimizer, and then updates the parameters once per
        batch. What is bound or initialized already stays as it is, with a warning.

        Parameters
        ----------
        train_data : DataIter
            Batches of an epoch; it is reset after each.
        eval_data : DataIter, optional
            Batches to score after each epoch.
        eval_metric : metric, name, or list of these
            What is logged of the training.
        validation_metric : metric, name, or list of these, optional
            What is logged of `eval_data`; `eval_metric` by default.
        epoch_end_callback : callable(epoch, symbol, arg_params, aux_params), or list
            Called after each epoch, such as `callback.do_checkpoint(prefix)`.
        batch_end_callback : callable(BatchEndParam), or list
            Called after each batch, such as `callback.Speedometer(batch_size)`.
        kvstore : str or KVStore
            Sums gradients of several contexts; `local` by default.
        optimizer : str or Optimizer
        optimizer_params : mapping or pairs
            Arguments of the optimizer, if it is given by name.
        initializer : Initializer, optional
            Fills parameters; uniform numbers within ±0.01 by default.
        arg_params, aux_params : mapping of str to NDArray, optional
            Values of parameters instead.
        allow_missing : bool
            Whether parameters that `arg_params` lacks are initialized; otherwise they are an error.
        force_rebind : bool
            Whether a bound module is bound again.
        force_init : bool
            Whether parameters that exist are initialized again.
        begin_epoch : int
            Number of the first epoch.
        num_epoch : int
            Number of the epoch at which to stop, so `num_epoch - begin_epoch` epochs run. Required.
        monitor : Monitor, optional
            Logs statistics of intermediate values.

        Raises
        ------
        ArgumentError  `num_epoch` is missing, `train_data` is no iterator, or parameters do not fit
        StopIteration  `train_data` has no batch when an epoch begins
        """
        scope: dict[str, Any] = dict(locals())
        if num_epoch is None:
            raise ArgumentError("[Module.fit] num_epoch: say how many epochs to train")
        described: Any = train_data  # which scripts may make without our DataIter
        if not hasattr(described, "provide_data"):
            raise ArgumentError(f"[Module.fit] train_data: expected a DataIter, got {train_data!r}")
        self.bind(
            data_shapes=described.provide_data, label_shapes=described.provide_label,
            for_training=True, force_rebind=force_rebind,
        )  # fmt: skip
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(
            initializer=initializer or Uniform(0.01), arg_params=arg_params, aux_params=aux_params,
            allow_missing=allow_missing, force_init=force_init,
        )  # fmt: skip
        if isinstance(described, Watched):
            if described.epoch != begin_epoch:
                raise ArgumentError(
                    f"[Module.fit] begin_epoch: expected {described.epoch}, in which the training of these data is, "
                    f"got {begin_epoch}"
                )
            described.restore(optimizer)
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params)
        check_metric = eval_metric if validation_metric is None else validation_metric
        scope |= {"eval_metric": metrics.create(eval_metric), "validation_metric": check_metric}
        for epoch in range(begin_epoch, num_epoch):
            scope["epoch"] = epoch
            self._fit_epoch(scope)
            arg, aux = self.get_params()
            self.set_params(arg, aux)  # contexts go on with the mean of their auxiliary states
            for callback in as_list(epoch_end_callback):
                callback(epoch, self.symbol, arg, aux)
            if eval_data is not None:
                scores = self.score(
                    eval_data, check_metric, score_end_callback=eval_end_callback,
                    batch_end_callback=eval_batch_end_callback, epoch=epoch,
                )  # fmt: skip
                for name, value in scores:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _fit_epoch(self, scope: dict[str, Any]) -> None:
        """One epoch, from the arguments of `fit`; callbacks get them with what changes, under MXNet's names.

        `scope` gets `eval_name_vals`, what the metric says of the epoch before the last callbacks see it. The next
        batch is taken before callbacks see the present one.
        """
        epoch, metric, monitor = scope["epoch"], scope["eval_metric"], scope["monitor"]
        callbacks, tic = as_list(scope["batch_end_callback"]), time.perf_counter()
        metric.reset()
        data = scope["train_data"]
        if isinstance(data, Watched):
            data.measure(metric)
        data_iter = iter(data)
        following = next(data_iter, None)
        if following is None and isinstance(data, Watched) and data.is_over:
            scope["eval_name_vals"] = metric.get_global_name_value()  # a checkpoint from the end of the epoch
        elif following is None:
            raise StopIteration(
                "[Module.fit] train_data: expected a batch, got none; reset the iterator before"
            )
        nbatch = (data.done if isinstance(data, Watched) else 0) - 1
        while (batch := following) is not None:
            nbatch += 1
            if monitor is not None:
                monitor.tic()
            self.forward_backward(batch)
            self.update()
            self._add_batch(metric, batch)
            following = next(data_iter, None)
            if following is not None:
                self.prepare(following, sparse_row_id_fn=scope["sparse_row_id_fn"])
            if monitor is not None:
                monitor.toc_print()
            if following is None:
                scope["eval_name_vals"] = metric.get_global_name_value()
            if callbacks:
                changing = {
                    "nbatch": nbatch, "data_batch": batch, "data_iter": data_iter, "tic": tic,
                    "next_data_batch": batch if following is None else following, "end_of_batch": following is None,
                }  # fmt: skip
                param = BatchEndParam(epoch, nbatch, metric, {**scope, **changing})
                for callback in callbacks:
                    callback(param)
        for name, value in scope["eval_name_vals"]:
            self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
        self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.perf_counter() - tic)

    # ---- what subclasses define ----

    def bind(
        self,
        data_shapes: Shapes,
        label_shapes: Shapes | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: BaseModule | None = None,
        grad_req: str | Sequence[str] | Mapping[str, str] = "write",
    ) -> None:
        """Allocates executors."""
        raise NotImplementedError

    def init_params(
        self,
        initializer: Filler | None = Uniform(0.01),
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Fills parameters."""
        raise NotImplementedError

    def init_optimizer(
        self,
        kvstore: Store = "local",
        optimizer: OptimizerLike = "sgd",
        optimizer_params: Settings = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Connects optimizer and KVStore."""
        raise NotImplementedError

    @property
    def data_names(self) -> list[str]:
        """Names of the inputs."""
        raise NotImplementedError

    @property
    def label_names(self) -> list[str]:
        """Names of the labels."""
        raise NotImplementedError

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        raise NotImplementedError

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Shapes bound for data."""
        raise NotImplementedError

    @property
    def label_shapes(self) -> list[DataDesc]:
        """Shapes bound for labels."""
        raise NotImplementedError

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs."""
        raise NotImplementedError

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Copies of arguments and auxiliary states on the host."""
        raise NotImplementedError

    def install_monitor(self, mon: Monitor) -> None:
        """Lets a monitor see every output."""
        raise NotImplementedError

    def set_params(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray] | None,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Takes parameters; those that the symbol does not have are passed over.

        Raises
        ------
        ArgumentError  one is missing, without allow_missing; with it and without allow_extra, one is
                       too many: then a name may be misspelt
        """
        self.init_params(
            initializer=None, arg_params=arg_params, aux_params=aux_params,
            allow_missing=allow_missing, force_init=force_init, allow_extra=allow_extra,
        )  # fmt: skip

    def save_params(self, fname: str) -> None:
        """Writes all parameters to a `.params` file, atomically."""
        arg, aux = self.get_params()
        nd.save(fname, {f"arg:{n}": v for n, v in arg.items()} | {f"aux:{n}": v for n, v in aux.items()})

    def load_params(self, fname: str) -> None:
        """Takes the parameters of a `.params` file."""
        self.set_params(*model.load_named(fname))

    def _require(self, params: bool = False, optimizer: bool = False) -> None:
        if not self.binded:
            raise MXNetError("[Module] call bind first")
        if params and not self.params_initialized:
            raise MXNetError("[Module] call init_params first")
        if optimizer and not self.optimizer_initialized:
            raise MXNetError("[Module] call init_optimizer first")


#: MXNet's private names of functions that programs import
__getattr__, __dir__ = lazy(
    __name__,
    {
        "mx_train.module.private_functions": [
            "_as_list",
            "_check_input_names",
            "_check_names_match",
            "_multiple_callbacks",
            "_parse_data_desc",
        ]
    },
)[:2]
