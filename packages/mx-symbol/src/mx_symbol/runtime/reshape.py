# SPDX-License-Identifier: Apache-2.0
"""`Executor.reshape`: an executor for other shapes that shares arrays and memory with the old one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mx_core import dtypes
from mx_core.errors import ShapeError
from mx_ndarray import NDArray, nd
from mx_symbol._core import FlatGraph
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.collector import collector_paused
from mx_symbol.graph.infer import check_names, legacy_in, shape_of
from mx_symbol.passes.bound_graph import BoundGraph, bytes_of
from mx_symbol.runtime.bind import made_executor, planned_graph
from mx_symbol.runtime.executor import Executor
from mx_symbol.runtime.pool import view_as


@collector_paused()
def rebind(
    executor: Executor, partial_shaping: bool, allow_up_sizing: bool, kwargs: Mapping[str, Any]
) -> Executor:
    """`Executor.reshape`."""
    old = executor._graph
    check_names(kwargs, list(old.arguments), "reshape")
    types = {name: old.specs[Entry(node)].dtype for name, node in old.arguments.items()}
    types |= {name: old.specs[Entry(node)].dtype for name, node in old.auxiliaries.items()}
    requests = {n: old.grad_req.get(n, "null") for n in old.arguments}
    shapes = {name: legacy_in(shape_of(shape, f"reshape {name}")) for name, shape in kwargs.items()}
    everything = (*executor._args.items(), *executor._aux.items())
    graph, devices = planned_graph(
        executor._symbol, FlatGraph(executor._symbol.nodes), shapes, types, requests, executor._context, old.passes,
        executor._groups,
        {name: array.context for name, array in everything}, old.planning,
    )  # fmt: skip

    def moved(name: str, array: NDArray | None, node: Node, named: bool) -> NDArray | None:
        spec = graph.specs[Entry(node)]
        if array is None or array.shape == spec.shape:
            return array
        if not named and not partial_shaping:
            raise ShapeError(
                f"[reshape] the shape of {name!r} changes from {array.shape} to {spec.shape}; allow "
                "it with partial_shaping=True"
            )
        if bytes_of(spec) <= array.size * dtypes.itemsize(spec.dtype):
            return view_as(array, spec.shape)
        if not allow_up_sizing:
            raise ShapeError(
                f"[reshape] {name!r} grows from {array.shape} to {spec.shape}; allow it with "
                "allow_up_sizing=True"
            )
        return nd.zeros(spec.shape, array.context, dtypes.name(spec.dtype))

    args: dict[str, NDArray] = {}
    grads: dict[str, NDArray | None] = {}
    aux: dict[str, NDArray] = {}
    for name, node in graph.arguments.items():
        array = moved(name, executor._args[name], node, name in kwargs)
        assert array is not None
        args[name] = array
        grads[name] = moved(name, executor._grads[name], node, True)
    for name, node in graph.auxiliaries.items():
        array = moved(name, executor._aux[name], node, False)
        assert array is not None
        aux[name] = array
    outputs = None if devices is not None else _outputs(executor, graph)
    return made_executor(
        executor._symbol, executor._context, graph, (args, grads, aux), executor._arena,
        executor._memory_budget, devices, executor._groups, outputs,
    )  # fmt: skip


def _outputs(executor: Executor, graph: BoundGraph) -> list[NDArray] | None:
    """Where the outputs of the new executor go: into those of the old one that are large enough, as in MXNet."""
    if len(executor.outputs) != len(graph.heads):
        return None
    made = []
    for array, head in zip(executor.outputs, graph.heads, strict=True):
        spec = graph.specs[head]
        fits = array.context == executor._context and dtypes.code(array.dtype) == spec.dtype
        if fits and bytes_of(spec) <= array.size * dtypes.itemsize(spec.dtype):
            made.append(view_as(array, spec.shape))
        else:
            made.append(nd.zeros(spec.shape, executor._context, dtypes.name(spec.dtype)))
    return made
