# SPDX-License-Identifier: Apache-2.0
"""BucketingModule: one network unrolled to several lengths, with parameters and memory in common."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from mx_core import Context
from mx_core.errors import ArgumentError, MXNetError
from mx_io.io import DataBatch, DataDesc
from mx_ndarray import NDArray, nd
from mx_symbol.symbol import Symbol
from mx_train import model
from mx_train.arguments import Callback, Filler, Gradients, Logger, OptimizerLike, Settings, Shapes, Store
from mx_train.initializer import Uniform
from mx_train.metric import EvalMetric
from mx_train.module.base_module import BaseModule
from mx_train.module.module import Module
from mx_train.monitor import Monitor

#: from a bucket key to (symbol, data names, label names)
SymbolMaker = Callable[[Any], tuple[Symbol, Sequence[str], Sequence[str] | None]]


class BucketingModule(BaseModule):
    """Trains graphs that differ from batch to batch, one Module per bucket.

    The first bucket, that of `default_bucket_key`, should be the largest: the others use its parameters, gradients
    and intermediate memory, and one optimizer serves all.

    Parameters
    ----------
    sym_gen : callable
        From a bucket key to (symbol, data names, label names).
    default_bucket_key : hashable
        The bucket that `bind` binds.
    context, work_load_list, fixed_param_names, state_names, group2ctxs, compression_params
        As of `Module`.

    Examples
    --------
    >>> mod = BucketingModule(sym_gen, default_bucket_key=train.default_bucket_key)
    >>> mod.fit(train, eval_metric="perplexity", num_epoch=5)
    """

    def __init__(
        self,
        sym_gen: SymbolMaker,
        default_bucket_key: Hashable = None,
        logger: Logger = logging,
        context: Context | Sequence[Context] | None = None,
        work_load_list: Sequence[float] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(logger)
        if default_bucket_key is None:
            raise ArgumentError("[BucketingModule] default_bucket_key: say which bucket is bound first")
        self._sym_gen = sym_gen
        self._default_bucket_key = default_bucket_key
        self._settings = {
            "context": context, "work_load_list": work_load_list, "fixed_param_names": fixed_param_names,
            "state_names": state_names, "group2ctxs": group2ctxs, "compression_params": compression_params,
        }  # fmt: skip
        self._buckets: dict[Hashable, Module] = {}
        self._curr_module: Module | None = None
        self._curr_bucket_key: Hashable = None
        self._grad_req: Any = "write"
        self._monitor: Monitor | None = None
        self._given: tuple[dict[str, NDArray], dict[str, NDArray]] | None = None
        self._new_module(default_bucket_key)  # a mistake in its names shows here

    @staticmethod
    def load(
        prefix: str, epoch: int, sym_gen: SymbolMaker, default_bucket_key: Hashable, **kwargs: Any
    ) -> BucketingModule:
        """A module with the parameters of a checkpoint; bind it before use.

        Parameters
        ----------
        **kwargs
            As of `BucketingModule`.
        """
        mod = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        mod._given = model.load_params(prefix, epoch)
        mod.params_initialized = True
        return mod

    @staticmethod
    def load_dict(
        sym_dict: Mapping[Hashable, Symbol] | None = None,
        sym_gen: SymbolMaker | None = None,
        default_bucket_key: Hashable = None,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        **kwargs: Any,
    ) -> BucketingModule:
        """As `load`, from parameters in memory; buckets in `sym_dict` have the symbol that is there."""
        if sym_gen is None:
            raise ArgumentError("[BucketingModule] sym_gen: expected a function from a bucket key")
        make = sym_gen
        symbols = dict(sym_dict or {})

        def from_dict(key: Hashable) -> tuple[Symbol, Sequence[str], Sequence[str] | None]:
            symbol, data, label = make(key)
            return symbols.get(key, symbol), data, label

        mod = BucketingModule(from_dict, default_bucket_key, **kwargs)
        mod._given = dict(arg_params or {}), dict(aux_params or {})
        mod.params_initialized = True
        return mod

    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Writes `prefix-NNNN.params`, a `prefix-KEY-symbol.json` per bucket, and their keys as `prefix.buckets`."""
        self._require(params=True)
        self.save_params(f"{prefix}-{epoch:04d}.params")
        for key, module in self._buckets.items():
            module.symbol.save(f"{prefix}-{key}-symbol.json", remove_amp_cast=remove_amp_cast)
        if all(isinstance(key, int) for key in self._buckets):
            nd.save(f"{prefix}.buckets", nd.array(list(self._buckets), dtype="int32"))

    # ---- properties ----

    @property
    def symbol(self) -> Symbol:
        """Of the present bucket."""
        return self._current().symbol

    @property
    def data_names(self) -> list[str]:
        """Of the present bucket, or of the default one."""
        if self._curr_module is None:
            return list(self._sym_gen(self._default_bucket_key)[1])
        return self._curr_module.data_names

    @property
    def label_names(self) -> list[str]:
        """Of the present bucket."""
        return self._current().label_names

    @property
    def output_names(self) -> list[str]:
        """Of the present bucket, or of the default one."""
        if self._curr_module is None:
            return list(self._sym_gen(self._default_bucket_key)[0].list_outputs())
        return self._curr_module.output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Of the present bucket."""
        return self._current().data_shapes

    @property
    def label_shapes(self) -> list[DataDesc]:
        """Of the present bucket."""
        return self._current().label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Of the present bucket."""
        return self._current().output_shapes

    def _current(self) -> Module:
        self._require()
        assert self._curr_module is not None
        return self._curr_module

    # ---- buckets ----

    def _new_module(self, key: Hashable) -> Module:
        made = self._sym_gen(key)
        if not isinstance(made, tuple) or len(made) != 3:
            raise ArgumentError(
                f"[BucketingModule] sym_gen({key!r}): expected (symbol, data names, label names), got {made!r}"
            )
        symbol, data, label = made
        return Module(symbol, data, label, logger=self.logger, **self._settings)

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
        """Binds the default bucket; the others are bound when a batch of theirs comes.

        Raises
        ------
        ArgumentError  `shared_module` is given: buckets share with each other only
        """
        if shared_module is not None:
            raise ArgumentError("[BucketingModule] shared_module: buckets share with each other only")
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        former = self._buckets.get(self._default_bucket_key)
        kept = self.get_params() if self.binded and self.params_initialized else self._given
        self._buckets = {}
        self._grad_req = grad_req
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        module = self._new_module(self._default_bucket_key)
        module.bind(
            data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind=False, grad_req=grad_req
        )
        self._curr_module, self._curr_bucket_key = module, self._default_bucket_key
        self._buckets[self._default_bucket_key] = module
        self.binded = True
        if kept is not None:
            self.set_params(*kept)
            self._given = None
        if self.optimizer_initialized and former is not None:
            module.borrow_optimizer(former)
        if self._monitor is not None:
            module.install_monitor(self._monitor)

    def switch_bucket(
        self, bucket_key: Hashable, data_shapes: Shapes | None, label_shapes: Shapes | None = None
    ) -> None:
        """Makes a bucket the present one; a new one is bound for these shapes."""
        default = self._buckets.get(self._default_bucket_key)
        if default is None:
            raise MXNetError("[BucketingModule] call bind first")
        module = self._buckets.get(bucket_key)
        if module is None:
            if data_shapes is None:
                raise ArgumentError(
                    f"[BucketingModule] bucket {bucket_key!r} is new: its batch needs provide_data and provide_label"
                )
            module = self._new_module(bucket_key)
            module.bind(
                data_shapes, label_shapes, self.for_training, self.inputs_need_grad, shared_module=default,
                grad_req=self._grad_req,
            )  # fmt: skip
            if self._monitor is not None:
                module.install_monitor(self._monitor)
            if self.optimizer_initialized:
                module.borrow_optimizer(default)
            self._buckets[bucket_key] = module
        self._curr_module, self._curr_bucket_key = module, bucket_key

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Callback | None = None) -> None:
        """Binds the bucket of a batch ahead of time; the present one stays."""
        self._require()
        present = self._curr_bucket_key
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self.switch_bucket(present, None)

    # ---- parameters ----

    def init_params(
        self,
        initializer: Filler | None = Uniform(0.01),
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Fills the parameters of all buckets, as `Module.init_params` does."""
        if self.params_initialized and not force_init:
            return
        self._require()
        self._current().init_params(
            initializer, arg_params, aux_params, allow_missing, force_init=True, allow_extra=allow_extra
        )
        for module in self._buckets.values():
            module.params_initialized = True
        self.params_initialized = True

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Copies of arguments and auxiliary states on the host."""
        if self._given is not None:
            return self._given
        self._require(params=True)
        module = self._current()
        module._stale = True  # another bucket may have trained what they share
        return module.get_params()

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """States of the present bucket; see `Module.get_states`."""
        return self._current().get_states(merge_multi_context)

    def set_states(
        self,
        states: Sequence[NDArray] | Sequence[Sequence[NDArray]] | None = None,
        value: float | None = None,
    ) -> None:
        """Sets states of the present bucket; see `Module.set_states`."""
        self._current().set_states(states, value)

    def init_optimizer(
        self,
        kvstore: Store = "local",
        optimizer: OptimizerLike = "sgd",
        optimizer_params: Settings = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """One optimizer and KVStore for all buckets."""
        self._require(params=True)
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        first = self._buckets[self._default_bucket_key]
        first.init_optimizer(kvstore, optimizer, optimizer_params, force_init=force_init)
        for module in self._buckets.values():
            if module is not first:
                module.borrow_optimizer(first)
        self.optimizer_initialized = True

    def save_optimizer_states(self, fname: str) -> None:
        """Writes the optimizer's states, atomically."""
        self._require(optimizer=True)
        self._buckets[self._default_bucket_key].save_optimizer_states(fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Takes states that `save_optimizer_states` wrote."""
        self._require(optimizer=True)
        self._buckets[self._default_bucket_key].load_optimizer_states(fname)

    # ---- computation ----

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Switches to the bucket of the batch (none: the present one) and computes; asynchronous."""
        self._require(params=True)
        if data_batch.bucket_key is not None:
            self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._current().forward(data_batch, is_train)

    def backward(self, out_grads: Gradients = None) -> None:
        """Gradients of the last forward; asynchronous."""
        self._current().backward(out_grads)

    def update(self) -> None:
        """Applies the optimizer; asynchronous."""
        self._require(params=True, optimizer=True)
        self._current().update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Outputs of the last forward."""
        return self._current().get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients by the data; bind with inputs_need_grad."""
        return self._current().get_input_grads(merge_multi_context)

    def update_metric(
        self, eval_metric: EvalMetric, labels: Sequence[NDArray], pre_sliced: bool = False
    ) -> None:
        """Adds the last forward to a metric."""
        self._current().update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Monitor) -> None:
        """Lets a monitor see every bucket, those to come included."""
        self._require()
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)
