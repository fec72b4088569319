# SPDX-License-Identifier: Apache-2.0
"""Module: a symbol bound to contexts, with parameters, an optimizer and a KVStore."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mx_core import Context, cpu
from mx_core.errors import ArgumentError, MXNetError, ShapeError
from mx_io.io import DataDesc
from mx_kvstore import KVStoreBase
from mx_ndarray import NDArray
from mx_symbol.symbol import Symbol
from mx_train import model
from mx_train.arguments import Filler, Gradients, Logger, Settings, Shapes
from mx_train.initializer import InitDesc, Uniform
from mx_train.metric import EvalMetric
from mx_train.module.base_module import BaseModule, as_list, warn_of_kept_parameters
from mx_train.module.captured import Captured
from mx_train.module.executor_group import ExecutorGroup, absent_labels_named, described
from mx_train.module.optimization import Optimization, check_shared, rescaling, store_for, warn_of_rescaling
from mx_train.module.private_names import PrivateNames
from mx_train.module.sliced_batch import Batch, contents_of, whole_shapes
from mx_train.monitor import Monitor
from mx_train.optimizer import Optimizer, Updater, create

_DEFAULT_LABELS = ("softmax_label",)


class Module(Captured, PrivateNames, BaseModule):
    """Trains and runs a symbol.

    Parameters
    ----------
    symbol : Symbol
    data_names, label_names : sequence of str
        Which arguments are inputs; the others are parameters.
    context : Context or list of Context
        Several contexts split each batch.
    fixed_param_names : sequence of str, optional
        Parameters that are not trained.
    state_names : sequence of str, optional
        Arguments that are neither inputs nor trained; see `set_states`.
    work_load_list : sequence of float, optional
        Shares of the contexts in a batch.

    Examples
    --------
    >>> mod = Module(net, context=cpu())
    >>> mod.fit(train_iter, eval_data=val_iter, optimizer="adam", num_epoch=3)
    """

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] | None = _DEFAULT_LABELS,
        logger: Logger = logging,
        context: Context | Sequence[Context] | None = None,
        work_load_list: Sequence[float] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(logger)
        self._symbol = symbol
        self._context = [cpu()] if context is None else as_list(context)
        if not self._context:
            raise ArgumentError("[Module] context: expected at least one context, got []")
        arguments = symbol.list_arguments()
        self._data_names = list(data_names)
        self._label_names = [n for n in label_names or () if n in arguments]
        for name in label_names or ():
            if name not in arguments and tuple(label_names or ()) != _DEFAULT_LABELS:
                self.logger.warning(
                    "[Module] label name %r is not an argument; there are %s", name, ", ".join(arguments)
                )
        self._state_names = list(state_names or ())
        self._fixed = set(fixed_param_names or ())
        for kind, names in (
            ("data", self._data_names),
            ("state", self._state_names),
            ("fixed_param", self._fixed),
        ):
            for name in names:
                if name not in arguments:
                    raise ArgumentError(
                        f"[Module] {kind} name {name!r} is not an argument; there are {', '.join(arguments)}"
                    )
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [n for n in arguments if n not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        #: keys of the parameters in the optimizer and the KVStore
        self._index = {name: i for i, name in enumerate(self._param_names)}
        self._work_load = list(work_load_list) if work_load_list is not None else None
        self._reqs: dict[str, str] = {}
        self._compression = compression_params
        self._exec_group: ExecutorGroup | None = None
        self._arg_params: dict[str, NDArray] = {}
        self._aux_params: dict[str, NDArray] = {}
        self._stale = False  # whether the executors know better than _arg_params
        self._optimization: Optimization | None = None
        self._states_file: str | None = None
        self._resumes = False  # loaded, and not trained since: `fit` is to go on with the loaded parameters

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """A module from a checkpoint; bind it before use."""
        symbol, args, aux = model.load_checkpoint(prefix, epoch)
        mod = Module(symbol, **kwargs)
        mod._arg_params, mod._aux_params = args, aux
        mod.params_initialized = mod._resumes = True
        if load_optimizer_states:
            mod._states_file = f"{prefix}-{epoch:04d}.states"
        return mod

    def save_checkpoint(
        self, prefix: str, epoch: int, save_optimizer_states: bool = False, remove_amp_cast: bool = True
    ) -> None:
        """Writes `prefix-symbol.json`, `prefix-NNNN.params` and, if asked, `prefix-NNNN.states`."""
        model.save_checkpoint(
            prefix, epoch, self._symbol, *self.get_params(), remove_amp_cast=remove_amp_cast
        )
        if save_optimizer_states:
            states = f"{prefix}-{epoch:04d}.states"
            self.save_optimizer_states(states)
            logging.info('Saved optimizer state to "%s"', states)

    # ---- properties ----

    @property
    def symbol(self) -> Symbol:
        """The symbol."""
        return self._symbol

    @property
    def data_names(self) -> list[str]:
        """Names of the inputs."""
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """Names of the labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return list(self._symbol.list_outputs())

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Shapes bound for data."""
        return self._bound().data_shapes

    @property
    def label_shapes(self) -> list[DataDesc]:
        """Shapes bound for labels."""
        return self._bound().label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs."""
        shapes = {d.name: d.shape for d in (*self.data_shapes, *self.label_shapes)}
        _, outputs, _ = self._symbol.infer_shape(**shapes)
        return list(zip(self.output_names, outputs or (), strict=True))

    @property
    def _data_shapes(self) -> list[DataDesc] | None:
        """The shapes bound for data, under the private name of MXNet's Module that scripts read; None if not bound."""
        return None if self._exec_group is None else self._exec_group.data_shapes

    @property
    def _label_shapes(self) -> list[DataDesc] | None:
        return None if self._exec_group is None else self._exec_group.label_shapes or None

    def _bound(self) -> ExecutorGroup:
        self._require()
        assert self._exec_group is not None
        return self._exec_group

    # ---- binding ----

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
        """Allocates executors for batches of these shapes.

        Parameters
        ----------
        data_shapes, label_shapes : list of DataDesc or of (name, shape)
        shared_module : Module, optional
            Whose parameters, gradients and memory are used, and its optimizer if that knows all parameters.
        grad_req : {"write", "add", "null"}, for all, in the order of the arguments, or by name
            Of the parameters, and of the data with inputs_need_grad.
        """
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if self.binded:
            self._sync_params()
        data = [described(d) for d in data_shapes]
        names = [d.name for d in data]
        if sorted(names) != sorted(self._data_names):
            raise ArgumentError(
                f"[Module] data_shapes name {names}, the module's data are {self._data_names}"
            )
        label = self._labels(label_shapes)
        self._reqs = self._requests(grad_req, for_training, inputs_need_grad)
        if shared_module is not None and not isinstance(shared_module, Module):
            raise ArgumentError(f"[Module] shared_module: expected a Module, got {shared_module!r}")
        shared = shared_module._exec_group if shared_module is not None else None
        self._exec_group = self._new_group(data, label, shared)
        self.for_training, self.inputs_need_grad, self.binded = for_training, inputs_need_grad, True
        if shared_module is not None and shared_module.params_initialized:
            self._arg_params, self._aux_params = shared_module._arg_params, shared_module._aux_params
            self.params_initialized = True
        elif self.params_initialized:
            try:
                self._push_params()
            except MXNetError:
                self._exec_group, self.binded = None, False
                raise
        lent = None if shared_module is None else shared_module._optimization
        if shared_module is not None and lent is not None and lent.knows(self._trained()):
            self.borrow_optimizer(shared_module)

    def reshape(self, data_shapes: Shapes, label_shapes: Shapes | None = None) -> None:
        """Takes other batch shapes; parameters stay where they are.

        Raises
        ------
        ShapeError  the shapes would need other parameters
        """
        group = self._bound()
        data = [described(d) for d in data_shapes]
        label = self._labels(label_shapes)
        shapes, _, _ = self._symbol.infer_shape(**{d.name: d.shape for d in (*data, *label)})
        for name, shape in zip(self._symbol.list_arguments(), shapes or (), strict=True):
            if name in self._param_names and shape != (bound := group.execs[0].arg_dict[name].shape):
                raise ShapeError(
                    f"[Module] data {[d.shape for d in data]} need {name!r} of shape {shape}; it has {bound}, for "
                    f"data of {[d.shape for d in self.data_shapes]}: give such data, or bind a new Module"
                )
        self._exec_group = self._new_group(data, label, group)
        self._exec_group.take_monitors(group)

    def _labels(self, label_shapes: Shapes | None) -> list[DataDesc]:
        """Of the labels offered, those that the symbol has; a misspelt one is an error."""
        offered = [described(d) for d in label_shapes or ()]
        names = [d.name for d in offered]
        unknown = [name for name in names if name not in self._label_names]
        missing = [name for name in self._label_names if name not in names]
        if unknown and missing:
            raise ArgumentError(
                f"[Module] label_shapes: nothing takes {', '.join(map(repr, unknown))}, and "
                f"{', '.join(map(repr, missing))} is missing; name the iterator's label so (label_name=…), or "
                f"the module's (label_names=…)"
            )
        return [d for d in offered if d.name in self._label_names]

    def _new_group(
        self, data: Sequence[DataDesc], label: Sequence[DataDesc], shared: ExecutorGroup | None
    ) -> ExecutorGroup:
        return ExecutorGroup(
            self._symbol, self._context, data, label, self._reqs, shared, self._param_names, self._work_load
        )

    def _requests(
        self, grad_req: str | Sequence[str] | Mapping[str, str], for_training: bool, inputs_need_grad: bool
    ) -> dict[str, str]:
        arguments = self._symbol.list_arguments()
        trained = {*self._trained(), *(self._data_names if inputs_need_grad else ())}
        if isinstance(grad_req, str):
            each = dict.fromkeys(arguments, grad_req)
        elif isinstance(grad_req, Mapping):
            each = {name: grad_req.get(name, "write") for name in arguments}
        else:
            if len(grad_req) != len(arguments):
                raise ArgumentError(
                    f"[Module] grad_req: expected {len(arguments)} requests ({', '.join(arguments)}), "
                    f"got {len(grad_req)}"
                )
            each = dict(zip(arguments, grad_req, strict=True))
        return {name: each[name] if for_training and name in trained else "null" for name in arguments}

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
        """Fills parameters: given ones are copied, the others initialized.

        Without `force_init` parameters that exist already stay as they are, with a UserWarning. The first call after
        `load` does not warn, unless it has parameters.

        Raises
        ------
        ArgumentError  a parameter is neither given nor can be initialized; a shape is wrong; some may be missing, but
                       one is given that the symbol does not have (without an initializer and allow_extra)
        """
        resumes, self._resumes = self._resumes and not (arg_params or aux_params), False
        if self.params_initialized and not force_init:
            if not resumes:
                warn_of_kept_parameters()
            return
        if initializer is not None and not callable(initializer):
            raise TypeError(
                f"[Module.init_params] initializer: expected an Initializer, got {initializer!r}; "
                "mx.init.create makes one of a name"
            )
        group = self._bound()
        attributes = self._symbol.attr_dict()
        for names, which, given in (
            (self._param_names, "arg_dict", arg_params), (self._aux_names, "aux_dict", aux_params),
        ):  # fmt: skip
            extra = set(given or ()) - set(names) - {*self._data_names, *self._label_names}
            if extra and allow_missing and initializer is None and not allow_extra:
                unknown = ", ".join(sorted(extra))
                raise ArgumentError(
                    f"[Module] not parameters of the symbol: {unknown}; allow_extra=True leaves them out"
                )
            for name, arrays in zip(names, group.arrays(names, which), strict=True):
                first = arrays[0]
                if given is not None and name in given:
                    if tuple(given[name].shape) != tuple(first.shape):
                        raise ArgumentError(
                            f"[Module] {name!r}: expected shape {first.shape}, got {given[name].shape}"
                        )
                    given[name].copyto(first)
                elif initializer is not None and (given is None or allow_missing or not given):
                    initializer(InitDesc(name, attributes.get(name), None), first)
                elif not allow_missing:
                    rest = "keeps its value" if initializer is None else "leaves it to the initializer"
                    raise ArgumentError(
                        f"[Module] {name!r} is not among the given parameters; allow_missing=True {rest}"
                    )
                for other in arrays[1:]:
                    first.copyto(other)
        self.params_initialized = True
        self._stale = True

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Copies of arguments and auxiliary states on the host.

        Raises
        ------
        MXNetError  the module has none: it is not bound and initialized, nor loaded
        """
        if self.binded or not self.params_initialized:
            self._require(params=True)
            self._sync_params()
        return self._arg_params, self._aux_params

    def _sync_params(self) -> None:
        if not self._stale:
            return
        group = self._bound()
        for names, which, target in (
            (self._param_names, "arg_dict", "_arg_params"), (self._aux_names, "aux_dict", "_aux_params"),
        ):  # fmt: skip
            setattr(self, target, group.means(names, which))
        self._stale = False

    def _push_params(self) -> None:
        group = self._bound()
        for names, which, table in (
            (self._param_names, "arg_dict", self._arg_params), (self._aux_names, "aux_dict", self._aux_params),
        ):  # fmt: skip
            for name, arrays in zip(names, group.arrays(names, which), strict=True):
                value = table.get(name)
                if value is None:
                    raise ArgumentError(f"[Module] {name!r} is not among the given parameters")
                if tuple(value.shape) != tuple(arrays[0].shape):
                    raise ShapeError(
                        f"[Module] {name!r}: expected shape {tuple(arrays[0].shape)}, got {tuple(value.shape)}"
                    )
                for array in arrays:
                    value.copyto(array)

    # ---- optimizer ----

    def init_optimizer(
        self,
        kvstore: str | KVStoreBase | None = "local",
        optimizer: str | Optimizer = "sgd",
        optimizer_params: Settings = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Connects optimizer and KVStore.

        Gradients are scaled by 1 / batch size unless said, where the batch is that of all workers whose
        gradients the store sums (an asynchronous store, with `async` in its type, sums none).

        Parameters
        ----------
        kvstore : str, `mx_kvstore.KVStoreBase` or None
            A store that is capable of `optimizer` runs it, unless MXNET_UPDATE_ON_KVSTORE is 0 or it is a
            `local` one with a parameter of more than 2**24 elements. With any other, gradients are summed by
            its `sum` and this module updates.
        optimizer : str or Optimizer
            An instance keeps its own `rescale_grad`; a warning says so if that is another factor.
        """
        self._require(params=True)
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        group, names = self._bound(), self._trained()
        store = store_for(kvstore, len(self._context))
        usual = rescaling(group.batch_size, store)
        by_index = {self._index[name]: name for name in names}
        if isinstance(optimizer, str):
            settings = {"rescale_grad": usual, **dict(optimizer_params)}
            optimizer = create(optimizer, sym=self._symbol, param_idx2name=by_index, **settings)
        else:
            warn_of_rescaling(optimizer, usual)
            optimizer.idx2name = optimizer.idx2name or dict(by_index.items())
        weights = dict(zip(by_index, group.arrays(names, "arg_dict"), strict=True))
        self._optimization = Optimization(optimizer, store, weights, by_index, self._compression)
        self.optimizer_initialized = True
        if self._states_file is not None:
            self.load_optimizer_states(self._states_file)
            self._states_file = None

    def _trained(self) -> list[str]:
        return [n for n in self._param_names if n not in self._fixed]

    def update(self) -> None:
        """Sums gradients over contexts, applies the optimizer, copies weights back; asynchronous."""
        self._require(params=True)
        optimization, group, names = self._optimized(), self._bound(), self._trained()
        weights, grads = group.arrays(names, "arg_dict"), group.arrays(names, "grad_dict")
        optimization.update([
            (self._index[name], weight, grad)
            for name, weight, grad in zip(names, weights, grads, strict=True)
            if all(g is not None for g in grad)  # else grad_req says that none is wanted
        ])  # fmt: skip
        self._stale = True

    def save_optimizer_states(self, fname: str) -> None:
        """Writes the optimizer's states, atomically."""
        self._optimized().save_states(fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Takes states that `save_optimizer_states` (or MXNet) wrote; raises as `Updater.set_states` does."""
        self._optimized().load_states(fname)

    @property
    def _optimizer(self) -> Optimizer | None:
        """Scripts read this attribute of MXNet's Module, and the two that follow."""
        return None if self._optimization is None else self._optimization.optimizer

    @property
    def _kvstore(self) -> KVStoreBase | None:
        return None if self._optimization is None else self._optimization.store

    @property
    def _updater(self) -> Updater | None:
        return None if self._optimization is None else self._optimization.updater

    def _optimized(self) -> Optimization:
        self._require(optimizer=True)
        assert self._optimization is not None
        return self._optimization

    def borrow_optimizer(self, shared_module: Module) -> None:
        """Uses another module's optimizer, KVStore and states.

        Raises
        ------
        ArgumentError  a parameter of this module is none of the other's
        """
        optimization = shared_module._optimized()
        check_shared(self._trained(), shared_module._index)
        self._index, self._optimization = shared_module._index, optimization
        self.optimizer_initialized = True

    # ---- computation ----

    def forward(self, data_batch: Batch, is_train: bool | None = None) -> None:
        """Computes outputs; asynchronous. A batch of another size rebinds.

        A batch needs `data` alone; labels are read where the module was bound with some. A list has a batch of equal
        shape for each context.

        Raises
        ------
        ArgumentError  a list has another number of batches than there are contexts
        ShapeError     batches of a list differ in shape
        """
        self._require(params=True)
        given = contents_of(data_batch, len(self._context))
        if (wanted := whole_shapes(self._bound(), given)) is not None:
            self.reshape(*wanted)
        group = self._bound()
        group.load(given)
        group.forward(self.for_training if is_train is None else is_train)

    def backward(self, out_grads: Gradients = None) -> None:
        """Computes gradients of the last forward; asynchronous."""
        self._require(params=True)
        self._bound().backward(as_list(out_grads) or None)
        self._stale = True

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Outputs of the last forward.

        Parameters
        ----------
        merge_multi_context : bool
            Outputs of whole batches; else per output a list with what each context computed.
        """
        group = self._bound()
        return group.outputs() if merge_multi_context else group.separate_outputs()

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients with respect to data; bind with inputs_need_grad. Parameters as of `get_outputs`."""
        if not self.inputs_need_grad:
            raise ArgumentError("[Module] bind with inputs_need_grad=True")
        group = self._bound()
        if merge_multi_context:
            return group.input_grads()
        return group.arrays([d.name for d in group.data_shapes], "grad_dict")

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """The arguments in `state_names`. Parameters as of `get_outputs`."""
        group = self._bound()
        if merge_multi_context:
            return group.joined_arrays(self._state_names)
        return group.arrays(self._state_names, "arg_dict")

    def set_states(
        self,
        states: Sequence[NDArray] | Sequence[Sequence[NDArray]] | None = None,
        value: float | None = None,
    ) -> None:
        """Sets the arguments in `state_names`.

        Parameters
        ----------
        states : list, as `get_states(merge_multi_context=False)` or `get_outputs(...)` of the same gives it
            Per state, one array per context.
        value : float
            All elements of all states.

        Raises
        ------
        ArgumentError  both or none are given, or another number of states
        """
        if (states is None) == (value is None):
            raise ArgumentError("[Module] set_states: give states or a value, one of both")
        targets = self._bound().arrays(self._state_names, "arg_dict")
        if states is None:
            for target in (array for each in targets for array in each):
                target[:] = value
            return
        if len(states) != len(targets):
            raise ArgumentError(f"[Module] set_states: expected {len(targets)} states, got {len(states)}")
        for given, each in zip(states, targets, strict=True):
            for source, target in zip(as_list(given), each, strict=True):
                source.copyto(target)

    def update_metric(
        self, eval_metric: EvalMetric, labels: Sequence[NDArray], pre_sliced: bool = False
    ) -> None:
        """Adds the last forward to a metric; waits for it.

        Parameters
        ----------
        labels : list of NDArray
            With pre_sliced a list of these per context.
        """
        group = self._bound()
        names = [d.name for d in group.label_shapes]
        separate = group.separate_outputs()
        for i in range(len(self._context)):
            mine = labels[i] if pre_sliced else group.labels(labels or (), i)
            outputs = dict(zip(self.output_names, (each[i] for each in separate), strict=True))
            with absent_labels_named([name for name in self._label_names if name not in names]):
                eval_metric.update_dict(dict(zip(names, mine, strict=False)), outputs)

    def install_monitor(self, mon: Monitor) -> None:
        """Lets a monitor see every output of every executor."""
        self._bound().install_monitor(mon)
