# SPDX-License-Identifier: Apache-2.0
"""MXNet's first front end for training: `mx.model.FeedForward`, over `Module`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_io.io import DataBatch, NDArrayIter, ResizeIter
from mx_ndarray import NDArray
from mx_symbol.symbol import Symbol
from mx_train import metric as metrics
from mx_train.arguments import Callbacks, Filler, Logger, Metric, OptimizerLike, Store
from mx_train.initializer import Uniform
from mx_train.model import BatchEndParam, load_checkpoint, save_checkpoint
from mx_train.module.base_module import as_list
from mx_train.module.module import Module
from mx_train.monitor import Monitor


class FeedForward:
    """A symbol with its parameters, which trains and predicts over iterators or arrays.

    Deprecated, as in MXNet: `Module` does the same and more.

    Threads: one at a time.

    Parameters
    ----------
    symbol : Symbol
    ctx : Context or list of Context, optional
        By default the CPU.
    num_epoch : int
        The epoch at which training stops.
    epoch_size : int, optional
        Batches in an epoch; by default what the iterator gives. The next epoch goes on where the last one stopped.
    optimizer : str or Optimizer
    initializer : Initializer
        For parameters that are not given.
    numpy_batch_size : int
        Examples in a batch of arrays.
    arg_params, aux_params : dict of name to NDArray, optional
        After training: the parameters.
    allow_extra_params : bool
        Whether parameters that the symbol lacks are left out; otherwise they are an error.
    begin_epoch : int
    **kwargs
        Arguments of the optimizer.
    """

    def __init__(
        self,
        symbol: Symbol,
        ctx: Context | Sequence[Context] | None = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: OptimizerLike = "sgd",
        initializer: Filler | None = None,
        numpy_batch_size: int = 128,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
        begin_epoch: int = 0,
        **kwargs: Any,
    ) -> None:
        warnings.warn("FeedForward is deprecated; use mx.mod.Module", FutureWarning, stacklevel=2)
        if not isinstance(symbol, Symbol):
            raise TypeError(
                f"[FeedForward] symbol: expected a Symbol, got {type(symbol).__name__}; BucketingModule takes a "
                "function that makes symbols"
            )
        self.symbol, self.ctx = symbol, ctx
        self.num_epoch, self.begin_epoch, self.epoch_size = num_epoch, begin_epoch, epoch_size
        self.optimizer, self.kwargs = optimizer, dict(kwargs)
        self.initializer = Uniform(0.01) if initializer is None else initializer
        self.numpy_batch_size = numpy_batch_size
        self.arg_params = None if arg_params is None else self._known(arg_params, allow_extra_params)
        self.aux_params = None if aux_params is None else self._known(aux_params, allow_extra_params)
        self.allow_extra_params = allow_extra_params

    def _known(self, params: Mapping[str, NDArray], drop: bool) -> dict[str, NDArray]:
        names = {*self.symbol.list_arguments(), *self.symbol.list_auxiliary_states()}
        unknown = sorted(params.keys() - names)
        if unknown and not drop:
            raise ArgumentError(
                f"[FeedForward] the symbol has no {', '.join(unknown)}; allow_extra_params leaves such parameters out"
            )
        return {name: value for name, value in params.items() if name in names}

    # ---- data ----

    def _iterator(self, x: Any, y: Any, is_train: bool) -> Any:
        """An iterator over batches: an iterator itself, or arrays cut into batches."""
        if not isinstance(x, (np.ndarray, NDArray)):
            if not (hasattr(x, "provide_data") and hasattr(x, "reset")):
                raise TypeError(f"[FeedForward] X: expected a DataIter or an array, got {type(x).__name__}")
            return x
        if y is None:
            if is_train:
                raise ArgumentError("[FeedForward] y: labels must be given where X is an array")
            y = np.zeros(x.shape[0])
        labels = np.asarray(y.asnumpy() if isinstance(y, NDArray) else y)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels.ravel()
        if labels.ndim != 1 or len(labels) != x.shape[0]:
            raise ArgumentError(f"[FeedForward] y: expected {x.shape[0]} labels, got shape {labels.shape}")
        size = min(x.shape[0], self.numpy_batch_size)
        if is_train:
            return NDArrayIter(x, labels, size, shuffle=True, last_batch_handle="roll_over")
        return NDArrayIter(x, labels, size)

    def _checked_data(self, data: Any) -> Any:
        """Data to validate with: an iterator, or a pair of arrays."""
        if data is None or hasattr(data, "provide_data"):
            return data
        if not isinstance(data, (tuple, list)) or len(data) != 2:
            raise TypeError(
                f"[FeedForward] eval_data: expected a DataIter or (X, y), got {type(data).__name__}"
            )
        first, second = (np.asarray(part) if isinstance(part, list) else part for part in data)
        return self._iterator(first, second, is_train=False)

    def _module(self, data: Any, logger: Logger | None = None) -> Module:
        arguments = self.symbol.list_arguments()
        labels = [desc[0] for desc in data.provide_label or () if desc[0] in arguments]
        labels = labels or [name for name in arguments if name.endswith("label")]  # to predict without them
        more: dict[str, Any] = {} if logger is None else {"logger": logger}
        return Module(self.symbol, [d[0] for d in data.provide_data], labels, context=self.ctx, **more)

    def _predicting(self, data: Any) -> Module:
        if self.arg_params is None:
            raise ArgumentError("[FeedForward] there are no parameters: call fit, or give arg_params")
        module = self._module(data)
        module.bind(data.provide_data, data.provide_label or None, for_training=False)
        module.set_params(self.arg_params, self.aux_params or {})
        return module

    # ---- work ----

    def fit(
        self,
        X: Any,
        y: Any = None,
        eval_data: Any = None,
        eval_metric: Metric = "acc",
        epoch_end_callback: Callbacks = None,
        batch_end_callback: Callbacks = None,
        kvstore: Store = "local",
        logger: Logger | None = None,
        work_load_list: Sequence[float] | None = None,
        monitor: Monitor | None = None,
        eval_end_callback: Callbacks = None,
        eval_batch_end_callback: Callbacks = None,
    ) -> None:
        """Trains; blocks.

        Parameters
        ----------
        X : DataIter, NDArray or ndarray
            Arrays are shuffled.
        y : array, optional
            Labels, where X is an array.
        eval_data : DataIter or (X, y), optional
            Is scored after each epoch.
        batch_end_callback : callable(BatchEndParam), or list
            Batches count from 1.
        logger : optional
            By default `logging`.
        work_load_list : optional
            Accepted as in MXNet; every device gets the same share.
        eval_metric, epoch_end_callback, kvstore, monitor, eval_end_callback, eval_batch_end_callback
            As of `Module.fit`.
        """
        data = self._iterator(X, y, is_train=True)
        module = self._module(data, logger)
        module.fit(
            data if self.epoch_size is None else ResizeIter(data, self.epoch_size, reset_internal=False),
            eval_data=self._checked_data(eval_data),
            eval_metric=eval_metric,
            epoch_end_callback=epoch_end_callback,
            batch_end_callback=[_counting_from_one(callback) for callback in as_list(batch_end_callback)],
            kvstore=kvstore,
            optimizer=self.optimizer,
            optimizer_params=self.kwargs,
            eval_end_callback=eval_end_callback,
            eval_batch_end_callback=eval_batch_end_callback,
            initializer=self.initializer,
            arg_params=self.arg_params,
            aux_params=self.aux_params,
            allow_missing=True,
            begin_epoch=self.begin_epoch,
            num_epoch=self.num_epoch,
            monitor=monitor,
        )
        self.arg_params, self.aux_params = module.get_params()

    def _predictions(
        self, data: Any, num_batch: int | None, reset: bool
    ) -> Iterator[tuple[list[Any], DataBatch, int]]:
        """Outputs without padding, the batch, and how many of its examples count."""
        module = self._predicting(data)
        for outputs, _, batch in module.iter_predict(data, num_batch, reset):
            yield [output.asnumpy() for output in outputs], batch, data.batch_size - (batch.pad or 0)

    def predict(
        self,
        X: Any,
        num_batch: int | None = None,
        return_data: bool = False,
        reset: bool = True,
    ) -> Any:
        """Outputs over an iterator or an array.

        Returns
        -------
        ndarray, or list of ndarray where there are several outputs; with `return_data` a tuple of outputs, data
        and labels
        """
        data = self._iterator(X, None, is_train=False)
        parts: tuple[list[Any], ...] = ([], [], [])
        for outputs, batch, n in self._predictions(data, num_batch, reset):
            parts[0].append(outputs)
            if return_data:
                parts[1].append([array.asnumpy()[:n] for array in batch.data])
                parts[2].append([array.asnumpy()[:n] for array in batch.label or ()])
        joined = tuple(_joined(part) for part in parts)
        return joined if return_data else joined[0]

    def score(
        self,
        X: Any,
        eval_metric: Metric = "acc",
        num_batch: int | None = None,
        batch_end_callback: Callbacks = None,
        reset: bool = True,
    ) -> Any:
        """The value of a metric over an iterator with labels; a list of values for a composite.

        Examples that fill up the last batch do not count.
        """
        data = self._iterator(X, None, is_train=False)
        metric = metrics.create(eval_metric)
        callbacks = [_counting_from_one(callback) for callback in as_list(batch_end_callback)]
        self._predicting(data).score(data, metric, num_batch, callbacks, reset=reset)
        return metric.get()[1]

    # ---- files ----

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Writes a checkpoint, by default of epoch `num_epoch`; see `save_checkpoint`."""
        number = self.num_epoch if epoch is None else epoch
        if number is None or self.arg_params is None:
            raise ArgumentError(
                "[FeedForward] nothing to save: there is no epoch, or there are no parameters"
            )
        save_checkpoint(prefix, number, self.symbol, self.arg_params, self.aux_params or {}, remove_amp_cast)

    @staticmethod
    def load(
        prefix: str, epoch: int, ctx: Context | Sequence[Context] | None = None, **kwargs: Any
    ) -> FeedForward:
        """A model from a checkpoint; training can go on from there."""
        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        return FeedForward(
            symbol, ctx=ctx, arg_params=arg_params, aux_params=aux_params, begin_epoch=epoch, **kwargs
        )

    @staticmethod
    def create(
        symbol: Symbol,
        X: Any,
        y: Any = None,
        ctx: Context | Sequence[Context] | None = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: OptimizerLike = "sgd",
        initializer: Filler | None = None,
        eval_data: Any = None,
        eval_metric: Metric = "acc",
        epoch_end_callback: Callbacks = None,
        batch_end_callback: Callbacks = None,
        kvstore: Store = "local",
        logger: Logger | None = None,
        work_load_list: Sequence[float] | None = None,
        eval_end_callback: Callbacks = None,
        eval_batch_end_callback: Callbacks = None,
        **kwargs: Any,
    ) -> FeedForward:
        """Makes a model and trains it. The arguments are those of the class and of `fit`."""
        model = FeedForward(
            symbol, ctx=ctx, num_epoch=num_epoch, epoch_size=epoch_size, optimizer=optimizer,
            initializer=initializer, **kwargs,
        )  # fmt: skip
        model.fit(
            X, y, eval_data=eval_data, eval_metric=eval_metric, epoch_end_callback=epoch_end_callback,
            batch_end_callback=batch_end_callback, kvstore=kvstore, logger=logger, work_load_list=work_load_list,
            eval_end_callback=eval_end_callback, eval_batch_end_callback=eval_batch_end_callback,
        )  # fmt: skip
        return model


def _counting_from_one(callback: Callable[..., None]) -> Callable[[BatchEndParam], None]:
    return lambda param: callback(param._replace(nbatch=param.nbatch + 1))


def _joined(batches: Sequence[Sequence[Any]]) -> Any:
    """Arrays of all batches; one alone is not in a list."""
    made = [np.concatenate(each) for each in zip(*batches, strict=True)]
    return made[0] if len(made) == 1 else made
