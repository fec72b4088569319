# SPDX-License-Identifier: Apache-2.0
"""Executors of graphs that run partition by partition, because shapes depend on values; on one device or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import MXNetError, ShapeError
from mx_core.kernels import TensorSpec
from mx_ndarray import NDArray, autograd, nd
from mx_symbol._core import FlatGraph
from mx_symbol.graph import Entry, Node, topological_order
from mx_symbol.graph.gradient import gradient_graph
from mx_symbol.graph.infer import PartialShape, complete, shape_inference, type_inference
from mx_symbol.graph.show import debug_text
from mx_symbol.passes import Passes
from mx_symbol.passes.bound_graph import FLOAT32, BoundGraph, refuse_unknown, variables_of
from mx_symbol.runtime.devices import Devices
from mx_symbol.runtime.executor import Callback, Executor, Mode, OutGrads
from mx_symbol.runtime.partitions import Partition, Partitions
from mx_symbol.runtime.program import Launch

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol


def build_partitions(
    heads: Sequence[Entry],
    shapes: Mapping[str, PartialShape | None],
    types: Mapping[str, int | None],
    grad_req: Mapping[str, str],
    devices: Devices,
    passes: Passes,
) -> BoundGraph:
    """As `bound_graph.build`, with copies between devices and with what is known of shapes.

    Raises
    ------
    ShapeError, DTypeError  contradiction, or a variable of which something stays unknown
    """
    cut = devices.with_copies(heads)
    order = topological_order(entry.node for entry in cut)
    graph = FlatGraph(order)
    arguments, auxiliaries = variables_of(graph)
    dims, codes = shape_inference(graph, shapes), type_inference(graph, types, FLOAT32)
    refuse_unknown(graph, dims)
    specs = {}
    for node in order:
        for i in range(node.num_outputs):
            shape, code = dims.get(Entry(node, i)), codes.get(Entry(node, i))
            if shape is not None and complete(shape):
                specs[Entry(node, i)] = TensorSpec(shape, FLOAT32 if code is None else code)
    wanted = [name for name in arguments if grad_req.get(name, "null") != "null"]
    head_grads = [Node(None, None, f"_head_grad_{i}") for i in range(len(cut))]
    variables = [arguments[name] for name in wanted]
    made = gradient_graph(cut, [Entry(node) for node in head_grads], variables, graph)
    users = {entry.node for node in made.nodes for entry in node.inputs}
    users |= {entry.node for entry in made.grads if entry is not None}
    forward = tuple(node for node in order if node.op is not None)
    grads = {name: entry for name, entry in zip(wanted, made.grads, strict=True) if entry is not None}
    return BoundGraph(
        cut, forward, len(forward), arguments, auxiliaries,
        tuple(node if node in users else None for node in head_grads) if wanted else (),
        grads, {name: grad_req[name] for name in wanted}, specs, passes,
    )  # fmt: skip


class PartitionedExecutor(Executor):
    """Runs a graph partition by partition (`mx_symbol.runtime.partitions`), with the interface of `Executor`.

    There is no one memory plan and no partial forward, since shapes are not known. An output whose shape depends on
    values is a new array after each forward; before the first one `outputs` is empty.
    """

    def __init__(
        self,
        symbol: Symbol,
        ctx: Context,
        graph: BoundGraph,
        arrays: tuple[dict[str, NDArray], dict[str, NDArray | None], dict[str, NDArray]],
        devices: Devices,
    ) -> None:
        self._devices = devices
        super().__init__(symbol, ctx, graph, arrays)
        self._partitions = Partitions(graph.heads, devices, graph.passes)
        self._made: list[NDArray] | None = None
        self._is_train: bool | None = None
        self._look: Callable[[Partition, Sequence[NDArray], Sequence[NDArray]], None] | None = None

    def _external_arrays(self, outputs: Sequence[NDArray] | None) -> dict[Entry, NDArray]:
        heads = self._graph.heads
        if any(head not in self._graph.specs for head in heads):
            return {}
        return {head: self._new(head) for head in heads}

    def _new(self, entry: Entry) -> NDArray:
        spec = self._graph.specs[entry]
        return nd.empty(spec.shape, self._devices.of(entry.node), dtypes.name(spec.dtype))

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """As `Executor.forward`; waits where the shape of something depends on values."""
        for name, value in kwargs.items():
            self._assign(name, value)
        self._run(bool(is_train), bool(is_train) and bool(self._graph.grad_req))
        return self.outputs

    def _run(self, is_train: bool, recorded: bool) -> None:
        leaves = {name: array.detach() for name, array in (*self._args.items(), *self._aux.items())}
        if recorded:
            requests = self._graph.grad_req
            grads = [grad for name in requests if (grad := self._grads[name]) is not None]
            autograd.mark_variables([leaves[name] for name in requests], grads, list(requests.values()))
        with autograd.record(is_train) if recorded else autograd.pause(is_train):
            made = self._partitions(leaves, self._look)
        self._made, self._is_train = made if recorded else None, is_train
        if self._arrays:
            for head, array in zip(self._graph.heads, made, strict=True):
                array.detach().copyto(self._arrays[head])
        else:
            self.outputs = [array.detach() for array in made]

    def backward(self, out_grads: OutGrads = None, is_train: bool = True) -> None:
        """As `Executor.backward`."""
        if not self._graph.grad_req:
            return
        given = self._given_out_grads(out_grads)
        if self._made is None:
            self._run(is_train if self._is_train is None else self._is_train, True)
        assert self._made is not None
        heads, grads = [], []
        for i, head in enumerate(self._made):
            grad = given[i] if given else None
            if grad is not None and grad.shape != head.shape:
                raise ShapeError(f"[backward] out_grads[{i}]: expected shape {head.shape}, got {grad.shape}")
            if head._recorded:
                heads.append(head)
                grads.append(None if grad is None else grad.as_in_context(head.context))
        for name, request in self._graph.grad_req.items():
            target = self._grads[name]
            if request == "write" and name not in self._graph.grads and target is not None:
                target[...] = 0
        self._made = None
        if heads:
            autograd.backward(heads, grads, train_mode=bool(self._is_train))

    def set_monitor_callback(self, callback: Callback | None, monitor_all: bool = False) -> None:
        """Calls `callback(name, array)` for outputs of forward nodes and copies, with `monitor_all` for inputs too;
        each node then runs on its own."""
        self._partitions = Partitions(
            self._graph.heads, self._devices, self._graph.passes, callback is not None
        )
        self._look = None
        if callback is not None:
            report = callback

            def look(partition: Partition, inputs: Sequence[NDArray], outputs: Sequence[NDArray]) -> None:
                shown = zip((*partition.inputs, *partition.outputs), (*inputs, *outputs), strict=True)
                for i, (entry, array) in enumerate(shown):
                    if monitor_all or i >= len(inputs):
                        report(entry.name, array.detach())

            self._look = look

    def debug_str(self) -> str:
        """The graph with its copies, and which partition runs where."""
        lines = [
            f"Partition {i} on {partition.context}: {', '.join(node.name for node in partition.nodes)}"
            for i, partition in enumerate(self._partitions.partitions)
        ]
        return debug_text(self._graph.heads) + "\n".join(lines) + "\n"

    def _plan(self, mode: Mode) -> NoReturn:
        self._timeline(mode)

    def _timeline(self, mode: Mode) -> NoReturn:
        raise MXNetError(
            "[Executor] the graph runs in partitions, each with a plan of its own; see debug_str()"
        )

    def _compiled(self, mode: Mode, separate: bool = False) -> Launch:
        raise MXNetError(
            "[Executor] the graph runs in partitions, each a program of its own; see debug_str()"
        )
