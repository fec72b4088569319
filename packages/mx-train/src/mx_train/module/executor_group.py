# SPDX-License-Identifier: Apache-2.0
"""Data parallelism: one executor per context, each with a slice of the batch."""

from __future__ import annotations

import copy
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mx_core import Context, cpu
from mx_core.errors import ArgumentError, ShapeError
from mx_io.io import DataBatch, DataDesc
from mx_ndarray import NDArray, nd
from mx_symbol.runtime.executor import Executor
from mx_symbol.symbol import Symbol
from mx_train.arguments import Shapes
from mx_train.metric import EvalMetric
from mx_train.module.parts import _load_data as _load_data
from mx_train.module.parts import _load_general as _load_general
from mx_train.module.parts import _load_label as _load_label
from mx_train.module.parts import _merge_multi_context as _merge_multi_context
from mx_train.module.private_names import ArraysOfContexts
from mx_train.monitor import Monitor


def described(shape: DataDesc | tuple[str, Sequence[int]]) -> DataDesc:
    """Name and shape as a DataDesc."""
    return shape if isinstance(shape, DataDesc) else DataDesc(*shape)


@contextmanager
def absent_labels_named(names: Sequence[str]) -> Iterator[None]:
    """Adds to errors of metrics which labels the data does not have, if it lacks any; as a note, below the message."""
    try:
        yield
    except Exception as error:
        if names:
            error.add_note(f"[Module] the data has no label {', '.join(map(repr, names))}")
        raise


class ExecutorGroup(ArraysOfContexts):
    """Executors of one symbol on several contexts.

    Threads: one at a time.

    Parameters
    ----------
    symbol : Symbol
    contexts : sequence of Context
        Each gets a slice of the batch.
    data_shapes, label_shapes : sequence of DataDesc
        Shapes of whole batches; the layout says which axis is the batch's.
    grad_req : mapping of str to str
        Per argument.
    shared : ExecutorGroup, optional
        Whose arrays and intermediate memory are used again.
    shared_names : sequence of str, optional
        Arguments that must come from there; by default any that fit do.
    work_load : sequence of float, optional
        Shares of the contexts; by default equal ones.
    buffers : sequence of dict, optional
        For each context, arrays by name: those of arguments that are not in `shared_names`. Large enough ones are used
        again, others are added.

    Raises
    ------
    ShapeError  the batch is smaller than the number of contexts, inputs differ in its size, or a shared argument
                has another shape
    """

    def __init__(
        self,
        symbol: Symbol,
        contexts: Sequence[Context],
        data_shapes: Sequence[DataDesc],
        label_shapes: Sequence[DataDesc],
        grad_req: Mapping[str, str],
        shared: ExecutorGroup | None = None,
        shared_names: Sequence[str] | None = None,
        work_load: Sequence[float] | None = None,
        buffers: Sequence[dict[str, NDArray]] | None = None,
    ) -> None:
        self.contexts = list(contexts)
        self.data_shapes, self.label_shapes = list(data_shapes), list(label_shapes)
        self.batch_size = _batch_size(self.data_shapes)
        self.slices = _slices(self.batch_size, work_load or [1.0] * len(self.contexts))
        arguments = set(symbol.list_arguments())
        self._inputs = [d for d in (*self.data_shapes, *self.label_shapes) if d.name in arguments]
        layouts = [output.attr("__layout__") for output in symbol]
        self._output_axes = [DataDesc.get_batch_axis(layout) for layout in layouts]
        self._remember(symbol, grad_req)
        self.execs: list[Executor] = []
        self._monitors: list[Monitor] = []
        for i, (context, part) in enumerate(zip(self.contexts, self.slices, strict=True)):
            shapes = {d.name: self._part_shape(d, part) for d in self._inputs}
            types = {d.name: d.dtype for d in self._inputs}
            other = shared.execs[i] if shared is not None else None
            self.execs.append(
                symbol.simple_bind(
                    context,
                    grad_req=dict(grad_req),
                    type_dict=types,
                    shared_exec=other,
                    shared_arg_names=shared_names if other is not None or buffers is not None else None,
                    shared_buffer=None if buffers is None else buffers[i],
                    **shapes,
                )  # fmt: skip
            )

    def _part_shape(self, desc: DataDesc, part: slice) -> tuple[int, ...]:
        axis, shape = _batch_axis(desc), list(desc.shape)
        # A label of another extent than the batch, as of one per time step, is cut in proportion.
        if axis >= 0 and len(self.contexts) > 1:
            if shape[axis] % self.batch_size:
                raise ShapeError(
                    f"[Module] {desc.name!r}: expected a multiple of the batch of {self.batch_size} along "
                    f"axis {axis}, got {desc.shape}"
                )
            shape[axis] = (part.stop - part.start) * (shape[axis] // self.batch_size)
        return tuple(shape)

    def _cut(self, value: NDArray, axis: int, part: slice) -> NDArray:
        if len(self.execs) == 1 or axis < 0:
            return value
        each = value.shape[axis] // self.batch_size
        cut: NDArray = nd.slice_axis(value, axis=axis, begin=part.start * each, end=part.stop * each)
        return cut

    def load(self, parts: Sequence[tuple[Sequence[NDArray], Sequence[NDArray]]]) -> None:
        """Copies (data, labels) of a whole batch, or of each context's, into the executors' inputs; asynchronous."""
        if len(parts) > 1:
            for executor, part in zip(self.execs, parts, strict=True):
                self._load_one(executor, self._named(*part))
            return
        arrays = self._named(*parts[0])
        for desc in self._given(arrays):
            value = _checked(arrays, desc.name, desc.shape)
            for executor, share in zip(self.execs, self.slices, strict=True):
                self._cut(value, _batch_axis(desc), share).copyto(executor.arg_dict[desc.name])

    def _load_one(self, executor: Executor, arrays: Mapping[str, NDArray]) -> None:
        for desc in self._given(arrays):
            target = executor.arg_dict[desc.name]
            _checked(arrays, desc.name, target.shape).copyto(target)

    def _given(self, arrays: Mapping[str, NDArray]) -> list[DataDesc]:
        return [desc for desc in self._inputs if desc.name in arrays]

    def _named(self, data: Sequence[NDArray], label: Sequence[NDArray]) -> dict[str, NDArray]:
        arrays = dict(zip((d.name for d in self.data_shapes), data, strict=True))
        if label and self.label_shapes:
            arrays |= dict(zip((d.name for d in self.label_shapes), label, strict=True))
        return arrays

    def forward(self, is_train: bool) -> None:
        """Runs all; asynchronous."""
        for executor in self.execs:
            executor.forward(is_train=is_train)

    def backward(self, out_grads: Sequence[NDArray] | None = None) -> None:
        """Gradients of all; asynchronous."""
        for executor, part in zip(self.execs, self.slices, strict=True):
            given = None
            if out_grads is not None:
                axes = zip(out_grads, self._output_axes, strict=True)
                given = [self._cut(grad, axis, part).as_in_context(executor._context) for grad, axis in axes]
            executor.backward(given)

    def outputs(self) -> list[NDArray]:
        """Outputs of the whole batch."""
        parts = zip(*(executor.outputs for executor in self.execs), strict=True)
        return [self._joined(each, axis) for each, axis in zip(parts, self._output_axes, strict=True)]

    def separate_outputs(self) -> list[list[NDArray]]:
        """Per output, what each context computed."""
        return [list(each) for each in zip(*(executor.outputs for executor in self.execs), strict=True)]

    def install_monitor(self, monitor: Monitor) -> None:
        """Lets a monitor see every output of every executor."""
        for executor in self.execs:
            monitor.install(executor)
        self._monitors.append(monitor)

    def take_monitors(self, replaced: ExecutorGroup) -> None:
        """Lets the monitors of another group look here instead."""
        for monitor in replaced._monitors:
            monitor.exes = [executor for executor in monitor.exes if executor not in replaced.execs]
            self.install_monitor(monitor)

    def _joined(self, parts: Sequence[NDArray], axis: int) -> NDArray:
        if len(parts) == 1 or axis < 0:
            return parts[0]
        joined: NDArray = nd.concat(*(x.as_in_context(self.contexts[0]) for x in parts), dim=axis)
        return joined

    def labels(self, labels: Sequence[NDArray], i: int) -> list[NDArray]:
        """The share of labels that belongs to context i."""
        axes = [_batch_axis(d) for d in self.label_shapes]
        return [self._cut(x, axis, self.slices[i]) for x, axis in zip(labels, axes, strict=False)]

    def arrays(self, names: Sequence[str], which: str) -> list[list[NDArray]]:
        """Per name, the arrays of all executors; `which` is arg_dict, grad_dict or aux_dict."""
        return [[getattr(executor, which)[name] for executor in self.execs] for name in names]

    def means(self, names: Sequence[str], which: str) -> dict[str, NDArray]:
        """By name, host copies of the mean over contexts (they differ for auxiliary states only)."""
        return {name: _mean(each) for name, each in zip(names, self.arrays(names, which), strict=True)}

    def input_grads(self) -> list[NDArray]:
        """Gradients of the data, of the whole batch."""
        each = self.arrays([d.name for d in self.data_shapes], "grad_dict")
        return [self._joined(g, _batch_axis(d)) for g, d in zip(each, self.data_shapes, strict=True)]

    def joined_arrays(self, names: Sequence[str]) -> list[NDArray]:
        """Arguments by name, of the whole batch."""
        return [self._joined(each, 0) for each in self.arrays(names, "arg_dict")]


class DataParallelExecutorGroup(ExecutorGroup):
    """Executors of one symbol on several contexts, as MXNet's programs make them; `Module` does so by itself.

    Threads: one at a time.

    Parameters
    ----------
    symbol : Symbol
    contexts : sequence of Context
    workload : sequence of float
        Shares of the contexts.
    data_shapes, label_shapes : sequence of DataDesc, or of (name, shape)
        Of whole batches.
    param_names : sequence of str
        Arguments that are parameters.
    for_training, inputs_need_grad : bool
        Whether parameters, and data, have gradients.
    shared_group : DataParallelExecutorGroup, optional
        Whose parameters, inputs and memory are used again.
    logger : accepted as in MXNet
    fixed_param_names : sequence of str, optional
        Parameters without gradients.
    grad_req : str, sequence of str or mapping of str to str
        Of arguments with gradients; what a mapping or a sequence (of all arguments) says of one counts in any case.
    state_names : sequence of str, optional
        Arguments that are states: `set_states` sets them, and they have no gradients.

    Attributes
    ----------
    shared_data_arrays : list of dict of str to NDArray
        For each context, the arrays of arguments that are no parameters; those of `shared_group`, if there is one.

    Raises
    ------
    ArgumentError  `group2ctxs` is given: `Module` has groups; a state is no argument; `workload`, `grad_req` or
                   `shared_group` is of another number of contexts or arguments
    ShapeError     as of `ExecutorGroup`
    """

    def __init__(
        self,
        symbol: Symbol,
        contexts: Sequence[Context],
        workload: Sequence[float],
        data_shapes: Shapes,
        label_shapes: Shapes | None,
        param_names: Sequence[str],
        for_training: bool,
        inputs_need_grad: bool,
        shared_group: DataParallelExecutorGroup | None = None,
        logger: Any = logging,
        fixed_param_names: Sequence[str] | None = None,
        grad_req: str | Sequence[str] | Mapping[str, str] = "write",
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
    ) -> None:
        if group2ctxs:
            raise ArgumentError("[DataParallelExecutorGroup] group2ctxs is an argument of mx.mod.Module here")
        self.logger, self.workload, self.state_names = logger, list(workload), list(state_names or ())
        if strange := set(self.state_names) - set(symbol.list_arguments()):
            raise ArgumentError(
                f"[DataParallelExecutorGroup] state_names: {', '.join(sorted(strange))}: not among the arguments "
                f"{', '.join(symbol.list_arguments())}"
            )
        self.shared_data_arrays: list[dict[str, NDArray]] = (
            [{} for _ in contexts] if shared_group is None else shared_group.shared_data_arrays
        )
        data, labels = [described(d) for d in data_shapes], [described(d) for d in label_shapes or ()]
        others = contexts if shared_group is None else shared_group.execs
        for what, given in (
            ("workload: expected shares", workload),
            ("shared_group: expected executors", others),
        ):
            if len(given) != len(contexts):
                raise ArgumentError(
                    f"[DataParallelExecutorGroup] {what} of {len(contexts)} contexts, got {len(given)}"
                )
        trained = set(param_names) - set(fixed_param_names or ())
        if inputs_need_grad:
            trained |= {d.name for d in data}
        self.inputs_need_grad, self.fixed_param_names = inputs_need_grad, list(fixed_param_names or ())
        requests = _requests(symbol.list_arguments(), grad_req if for_training else "null", trained)
        self._training = for_training
        self._names_of_parameters = list(param_names)
        self._bind(symbol, contexts, data, labels, requests, shared_group)

    def _bind(
        self,
        symbol: Symbol,
        contexts: Sequence[Context],
        data: Sequence[DataDesc],
        labels: Sequence[DataDesc],
        requests: Mapping[str, str],
        shared: ExecutorGroup | None,
    ) -> None:
        names = self._names_of_parameters
        ExecutorGroup.__init__(
            self,
            symbol,
            contexts,
            data,
            labels,
            requests,
            shared,
            names,
            self.workload,
            self.shared_data_arrays,
        )
        self.param_names = [name for name in self.arg_names if name in set(names)]
        self.output_names = symbol.list_outputs()
        self.num_outputs = len(self.output_names)

    def bind_exec(
        self,
        data_shapes: Shapes,
        label_shapes: Shapes | None,
        shared_group: DataParallelExecutorGroup | None = None,
        reshape: bool = False,
    ) -> None:
        """Binds executors for other shapes; with `reshape`, to the parameters and the memory of those that were bound.

        Raises
        ------
        ShapeError  as of `ExecutorGroup`; what was bound stays
        """
        made = copy.copy(self)
        data, labels = [described(d) for d in data_shapes], [described(d) for d in label_shapes or ()]
        shared = self if reshape else shared_group
        made._bind(self.symbol, self.contexts, data, labels, self.grad_req, shared)
        made.take_monitors(self)
        vars(self).update(vars(made))

    def reshape(self, data_shapes: Shapes, label_shapes: Shapes | None) -> None:
        """Binds executors for other shapes to the same parameters; nothing is done where shapes are those bound."""
        data, labels = [described(d) for d in data_shapes], [described(d) for d in label_shapes or ()]
        if (data, labels) != (self.data_shapes, self.label_shapes):
            self.bind_exec(data, labels, reshape=True)

    def decide_slices(self, data_shapes: Shapes) -> list[int]:
        """Sets `batch_size` and `slices` for data of some shapes; the axes of the batch, -1 for data without one.

        Raises
        ------
        ShapeError  data differ in the size of the batch, or it is smaller than the number of contexts
        """
        data = [described(d) for d in data_shapes]
        size = _batch_size(data)
        self.batch_size, self.slices = size, _slices(size, self.workload)
        return [_batch_axis(d) for d in data]

    # ---- states ----

    @property
    def state_arrays(self) -> list[list[NDArray]]:
        """The states, each on every context."""
        return self.arrays(self.state_names, "arg_dict")

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """States of the whole batch, or of each context."""
        return list(self.joined_arrays(self.state_names) if merge_multi_context else self.state_arrays)

    def set_states(
        self, states: Sequence[NDArray | Sequence[NDArray]] | None = None, value: float | None = None
    ) -> None:
        """Sets the states to what `get_states` gives, merged or not, or all elements to a number; asynchronous.

        Raises
        ------
        ArgumentError  both are given, or neither, or another number of states
        ShapeError     a state has another shape
        """
        if (states is None) == (value is None):
            raise ArgumentError(
                "[set_states] expected states or a value, got " + ("neither" if states is None else "both")
            )
        if states is not None and len(states) != len(self.state_names):
            raise ArgumentError(
                f"[set_states] expected {len(self.state_names)} states ({', '.join(self.state_names)}), got "
                f"{len(states)}"
            )
        for i, (name, arrays) in enumerate(zip(self.state_names, self.state_arrays, strict=True)):
            given = None if states is None else states[i]
            for k, (array, part) in enumerate(zip(arrays, self.slices, strict=True)):
                if given is None:
                    array[:] = value
                else:
                    own = self._cut(given, 0, part) if isinstance(given, NDArray) else given[k]
                    _checked({name: own}, name, array.shape).copyto(array)

    # ---- computing ----

    def forward(  # type: ignore[override]  # MXNet's takes the batch
        self, data_batch: DataBatch, is_train: bool | None = None
    ) -> None:
        """Copies a batch into the executors and runs them; asynchronous."""
        self.load([(data_batch.data, data_batch.label or [])])
        super().forward(self._training if is_train is None else is_train)

    def get_outputs(
        self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None
    ) -> list[Any]:
        """Outputs of the whole batch, or of each context; those from `begin` to before `end`."""
        return list(self.outputs() if merge_multi_context else self.separate_outputs())[begin:end]

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients of the data of the whole batch, or of each context."""
        if merge_multi_context:
            return list(self.input_grads())
        return self.arrays([d.name for d in self.data_shapes], "grad_dict")

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs of the whole batch."""
        shapes = {d.name: d.shape for d in self._inputs}
        _, outputs, _ = self.symbol.infer_shape(**shapes)
        return list(zip(self.symbol.list_outputs(), outputs or (), strict=True))

    def update_metric(self, eval_metric: EvalMetric, labels: Sequence[Any], pre_sliced: bool = False) -> None:
        """Adds the last forward to a metric; waits for it. With `pre_sliced` labels are a list for each context."""
        separate, names = self.separate_outputs(), self.symbol.list_outputs()
        for i in range(len(self.contexts)):
            mine = labels[i] if pre_sliced else self.labels(labels, i)
            outputs = dict(zip(names, (each[i] for each in separate), strict=True))
            eval_metric.update_dict(dict(zip(self.label_names, mine, strict=False)), outputs)

    def set_params(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra: bool = False,
    ) -> None:
        """Copies parameters and auxiliary states to every context."""
        for executor in self.execs:
            executor.copy_params_from(
                dict(arg_params), dict(aux_params or {}), allow_extra_params=allow_extra
            )

    def get_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Puts means over the contexts of parameters and auxiliary states into the dictionaries."""
        arg_params.update(self.means(self.param_names, "arg_dict"))
        aux_params.update(self.means(self.aux_names, "aux_dict"))


def _requests(
    arguments: Sequence[str], grad_req: str | Sequence[str] | Mapping[str, str], trained: Collection[str]
) -> dict[str, str]:
    """The request of each argument: what a mapping or a sequence says of it, else one for those that are trained."""
    if isinstance(grad_req, str):
        return {name: grad_req if name in trained else "null" for name in arguments}
    if isinstance(grad_req, Mapping):
        return {name: grad_req.get(name, "write" if name in trained else "null") for name in arguments}
    if len(grad_req) != len(arguments):
        raise ArgumentError(
            f"[DataParallelExecutorGroup] grad_req: expected {len(arguments)} requests ({', '.join(arguments)}), got "
            f"{len(grad_req)}"
        )
    return dict(zip(arguments, grad_req, strict=True))


def _checked(arrays: Mapping[str, NDArray], name: str, shape: Sequence[int]) -> NDArray:
    value = arrays[name]
    if not isinstance(value, NDArray):
        raise TypeError(f"[Module] {name!r}: expected an NDArray, got {type(value).__name__}")
    if tuple(value.shape) != tuple(shape):
        raise ShapeError(f"[Module] {name!r}: bound with shape {tuple(shape)}, got {value.shape}")
    return value


def _batch_axis(desc: DataDesc) -> int:
    return DataDesc.get_batch_axis(desc.layout)


def _batch_size(data_shapes: Sequence[DataDesc]) -> int:
    sizes = {d.shape[axis] for d in data_shapes if 0 <= (axis := _batch_axis(d)) < len(d.shape)}
    if len(sizes) != 1:
        raise ShapeError(
            f"[Module] expected data of one batch size, got {[(d.name, d.shape, d.layout) for d in data_shapes]}"
        )
    return sizes.pop()


def _slices(total: int, shares: Sequence[float]) -> list[slice]:
    if total < len(shares):
        raise ShapeError(f"[Module] a batch of {total} for {len(shares)} contexts")
    if min(shares) <= 0:
        raise ArgumentError(f"[Module] work_load_list: expected shares above 0, got {list(shares)}")
    ends, begin = [], 0
    for i, share in enumerate(shares[:-1]):
        others = len(shares) - 1 - i  # each of which needs an example
        begin = min(max(begin + round(total * share / sum(shares)), begin + 1), total - others)
        ends.append(begin)
    return [slice(a, b) for a, b in zip([0, *ends], [*ends, total], strict=True)]


def _mean(arrays: Sequence[NDArray]) -> NDArray:
    if len(arrays) == 1:
        return arrays[0].copyto(cpu())
    total = nd.add_n(*(a.as_in_context(cpu()) for a in arrays))
    mean: NDArray = (total / len(arrays)).astype(arrays[0].dtype)
    return mean
