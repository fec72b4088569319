# SPDX-License-Identifier: Apache-2.0
"""Binding: from a symbol and arrays, or shapes, to an executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.context import Context, current_context
from mx_core.errors import ArgumentError, MXNetError
from mx_ndarray import NDArray
from mx_symbol._core import FlatGraph
from mx_symbol.graph import Entry
from mx_symbol.graph.collector import collector_paused
from mx_symbol.graph.infer import PartialShape, check_names, legacy_in, shape_of
from mx_symbol.graph.planning import Planning
from mx_symbol.graph.text import storage_type
from mx_symbol.passes import Passes
from mx_symbol.passes.bound_graph import BoundGraph, build, closed_graph, variables_of
from mx_symbol.runtime.arguments import (
    Arrays,
    check_fits,
    check_places,
    named_arrays,
    named_gradients,
    requests_of,
)
from mx_symbol.runtime.devices import Devices
from mx_symbol.runtime.executor import Executor
from mx_symbol.runtime.partitioned_executor import PartitionedExecutor, build_partitions
from mx_symbol.runtime.partitions import has_dynamic, is_dynamic
from mx_symbol.runtime.placed_executor import PlacedExecutor
from mx_symbol.runtime.pool import Pool
from mx_symbol.runtime.program import Arena

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol


@collector_paused()
def bind(
    symbol: Symbol,
    ctx: Context | None,
    args: Arrays,
    args_grad: Sequence[NDArray | None] | Mapping[str, NDArray] | None = None,
    grad_req: str | Sequence[str] | Mapping[str, str] = "write",
    aux_states: Arrays | None = None,
    group2ctx: Mapping[str, Context] | None = None,
    shared_exec: Executor | None = None,
    memory_budget: int | None = None,
    passes: str | None = None,
    memory_mode: str | None = None,
    branches: str | None = None,
) -> Executor:
    """Binds a symbol to arrays the caller owns.

    Parameters
    ----------
    args : list in the order of `list_arguments`, or by name
    args_grad : the same for gradients; missing ones are not computed
    group2ctx : devices by name of a group (`AttrScope(ctx_group=...)`); see `mx_symbol.runtime.devices`
    grad_req : {"write", "add", "null"}, for all, in order, or by name (missing: "null")
    aux_states : list in the order of `list_auxiliary_states`, or by name
    shared_exec : executor whose intermediate memory is used too; the two must not run interleaved
        between forward and backward
    memory_budget : most bytes that the intermediate values of training may take; what does not fit is
        computed again in backward (`mx_symbol.memory.recompute`)
    passes : which graph passes run, as in the environment variable MX_PASSES: "-fuse,-cse" leaves two out
    memory_mode : "least_memory" shares memory wherever the schedule allows it, "most_parallel" only where no branch
        of the graph would have to wait for another by that; by default MX_MEMORY_MODE, or least memory
    branches : whether branches that do not depend on each other run side by side: "always", "never", or "auto", when
        that looks faster; by default MX_BRANCHES, or "auto"

    Raises
    ------
    ArgumentError  arrays are missing or too many, or, without `group2ctx`, on another device than `ctx`; or
                   `memory_budget` together with "most_parallel"
    ShapeError, DTypeError  arrays do not fit the graph; names node, argument, both values
    """
    place = _place(ctx)
    planning = _planning(place, memory_mode, branches, memory_budget)
    whole = FlatGraph(symbol.nodes)
    arguments, auxiliaries = variables_of(whole)
    arg_table = named_arrays(args, list(arguments), "args")
    aux_table = named_arrays(aux_states if aux_states is not None else {}, list(auxiliaries), "aux_states")
    grads = named_gradients(args_grad, list(arguments))
    requests = requests_of(grad_req, list(arguments))
    requests = {n: r for n, r in requests.items() if grads.get(n) is not None and r != "null"}
    if not group2ctx:
        check_places(place, (arg_table, grads, aux_table))
    everything = {**arg_table, **aux_table}
    graph, devices = planned_graph(
        symbol, whole,
        {name: tuple(array.shape) for name, array in everything.items()},
        {name: dtypes.code(array.dtype) for name, array in everything.items()},
        requests, place, Passes.parse(passes), group2ctx or {},
        {name: array.context for name, array in everything.items()}, planning,
    )  # fmt: skip
    for name in requests:
        check_fits(f"gradient of {name}", grads[name], graph.specs[Entry(graph.arguments[name])])
    grad_table = {name: grads.get(name) for name in arguments}
    arena = None if shared_exec is None else shared_exec._arena
    arrays = (arg_table, grad_table, aux_table)
    return made_executor(symbol, place, graph, arrays, arena, memory_budget, devices, group2ctx or {})


@collector_paused()
def simple_bind(
    symbol: Symbol,
    ctx: Context | None = None,
    grad_req: str | Sequence[str] | Mapping[str, str] = "write",
    type_dict: Mapping[str, Any] | None = None,
    stype_dict: Mapping[str, str] | None = None,
    group2ctx: Mapping[str, Context] | None = None,
    shared_arg_names: Sequence[str] | None = None,
    shared_exec: Executor | None = None,
    shared_buffer: dict[str, NDArray] | None = None,
    memory_budget: int | None = None,
    passes: str | None = None,
    memory_mode: str | None = None,
    branches: str | None = None,
    **kwargs: Sequence[int],
) -> Executor:
    """Infers shapes and types, allocates arrays (zeros) and binds.

    Parameters
    ----------
    type_dict : element types by name; float32 where nothing else is known
    stype_dict : "default" by name, for variables that say another storage type
    shared_arg_names, shared_exec : arguments whose arrays are taken from another executor
    shared_buffer : arrays by name (gradients: `grad of NAME`) that are used where they are large enough,
        and added to; arguments in `shared_arg_names` stay out of it
    memory_budget, passes, memory_mode, branches : as in `bind`
    **kwargs : shapes by argument; 0 is an unknown dimension

    Raises
    ------
    ShapeError, DTypeError  contradiction, or a shape that cannot be inferred
    MXNetError              a storage type other than "default"
    """
    place = _place(ctx)
    planning = _planning(place, memory_mode, branches, memory_budget)
    if shared_buffer is not None and not isinstance(shared_buffer, dict):
        raise TypeError(f"[simple_bind] shared_buffer: expected a dict, got {type(shared_buffer).__name__}")
    whole = FlatGraph(symbol.nodes)
    arguments, _ = variables_of(whole)
    names = [node.name for node in whole.variables]
    _check_storage(whole, stype_dict or {})
    check_names(kwargs, names, "simple_bind")
    check_names(type_dict or {}, names, "simple_bind")
    requests = requests_of(grad_req, list(arguments))
    graph, devices = planned_graph(
        symbol, whole,
        {name: legacy_in(shape_of(shape, f"simple_bind {name}")) for name, shape in kwargs.items()},
        {
            name: dtypes.code(kind, f"[simple_bind] type_dict {name}") for name, kind in (type_dict or {}).items()
        },
        requests, place, Passes.parse(passes), group2ctx or {}, {}, planning,
    )  # fmt: skip
    pool = Pool(place, devices, shared_exec, shared_arg_names, shared_buffer)
    args = {name: pool.argument(name, graph, node) for name, node in graph.arguments.items()}
    aux = {name: pool.auxiliary(name, graph, node) for name, node in graph.auxiliaries.items()}
    grads: dict[str, NDArray | None] = {}
    for name, node in graph.arguments.items():
        wanted = requests.get(name, "null") != "null"
        grads[name] = pool.gradient(name, graph, node) if wanted else None
    arena = None if shared_exec is None else shared_exec._arena
    arrays = (args, grads, aux)
    return made_executor(symbol, place, graph, arrays, arena, memory_budget, devices, group2ctx or {})


def _check_storage(graph: FlatGraph, given: Mapping[str, str]) -> None:
    """Refuses storage types that are not dense, by variable."""
    told = {node.name: stype for node in graph.variables if (stype := storage_type(node.attrs)) != "default"}
    for name, stype in {**told, **given}.items():
        if stype != "default":
            raise MXNetError(
                f"[simple_bind] {name}: arrays are dense, so storage type {stype!r} cannot be bound; give "
                f"stype_dict={{{name!r}: 'default'}} to have it dense"
            )


def _planning(
    place: Context, memory_mode: str | None, branches: str | None, memory_budget: int | None
) -> Planning:
    if memory_budget is not None and memory_mode == "most_parallel":
        raise ArgumentError(
            "[bind] memory_mode: expected least_memory, since there is a memory_budget, got 'most_parallel'"
        )
    return Planning.parse(memory_mode, branches, place)


def _place(ctx: Context | None) -> Context:
    if ctx is not None and not isinstance(ctx, Context):
        raise TypeError(f"[bind] ctx: expected a Context such as cpu(), got {ctx!r}")
    return current_context() if ctx is None else ctx


def planned_graph(
    symbol: Symbol,
    whole: FlatGraph,
    shapes: Mapping[str, PartialShape | None],
    types: Mapping[str, int | None],
    requests: Mapping[str, str],
    place: Context,
    passes: Passes,
    groups: Mapping[str, Context],
    arrays: Mapping[str, Context],
    planning: Planning,
) -> tuple[BoundGraph, Devices | None]:
    """The graph to run, and where its nodes lie if it takes several programs."""
    heads, whole = closed_graph(symbol.entries, shapes, whole)
    devices = Devices(whole, place, groups, arrays if groups else {})
    if has_dynamic(whole):
        return build_partitions(heads, shapes, types, requests, devices, passes), devices
    graph = build(heads, shapes, types, requests, place, passes, planning=planning, whole=whole)
    return graph, devices if devices.several else None


def made_executor(
    symbol: Symbol,
    place: Context,
    graph: BoundGraph,
    arrays: tuple[dict[str, NDArray], dict[str, NDArray | None], dict[str, NDArray]],
    arena: Arena | None,
    memory_budget: int | None,
    devices: Devices | None,
    groups: Mapping[str, Context],
    outputs: Sequence[NDArray] | None = None,
) -> Executor:
    """The executor of a graph: of one program, of a program for each device, or of parts.

    `outputs` are arrays that one of one program writes its outputs into.
    """
    if devices is None:
        return Executor(symbol, place, graph, arrays, arena, outputs, memory_budget=memory_budget)
    executor: Executor
    if any(map(is_dynamic, graph.schedule)):
        if memory_budget is not None:
            raise ArgumentError("[bind] memory_budget: expected shapes that are known before the graph runs")
        executor = PartitionedExecutor(symbol, place, graph, arrays, devices)
    else:
        grads = {name: array.context for name, array in arrays[1].items() if array is not None}
        graph = devices.bound_with_copies(graph, grads)
        executor = PlacedExecutor(symbol, place, graph, arrays, devices, arena, memory_budget)
    executor._groups = dict(groups)
    return executor
