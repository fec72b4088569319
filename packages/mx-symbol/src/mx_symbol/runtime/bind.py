# SPDX-License-Identifier: Apache-2.0
"""Binding: from a symbol and arrays, or shapes, to an executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.context import Context, current_context
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_core.kernels import TensorSpec
from mx_ndarray import NDArray, nd
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.infer import PartialShape, check_names, legacy_in, shape_of
from mx_symbol.graph.planning import Planning
from mx_symbol.passes import Passes
from mx_symbol.passes.bound_graph import BoundGraph, build, bytes_of, closed_shapes, variables_of
from mx_symbol.runtime.devices import Devices
from mx_symbol.runtime.executor import Executor
from mx_symbol.runtime.pieces import is_dynamic
from mx_symbol.runtime.piecewise import PiecewiseExecutor, build_in_pieces
from mx_symbol.runtime.placed_executor import PlacedExecutor
from mx_symbol.runtime.program import Arena

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol

_REQUESTS = ("write", "add", "null")
Arrays = Sequence[NDArray] | Mapping[str, NDArray]


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
    ArgumentError  arrays are missing or too many; or `memory_budget` together with "most_parallel"
    ShapeError, DTypeError  arrays do not fit the graph; names node, argument, both values
    """
    place = _place(ctx)
    planning = _planning(place, memory_mode, branches, memory_budget)
    arguments, auxiliaries = variables_of(symbol.nodes)
    arg_table = _named(args, list(arguments), "args")
    aux_table = _named(aux_states if aux_states is not None else {}, list(auxiliaries), "aux_states")
    grads = _named_grads(args_grad, list(arguments))
    requests = _requests(grad_req, list(arguments))
    requests = {n: r for n, r in requests.items() if grads.get(n) is not None and r != "null"}
    everything = {**arg_table, **aux_table}
    graph, devices = _planned(
        symbol,
        {name: tuple(array.shape) for name, array in everything.items()},
        {name: dtypes.code(array.dtype) for name, array in everything.items()},
        requests, place, Passes.parse(passes), group2ctx or {},
        {name: array.context for name, array in everything.items()}, planning,
    )  # fmt: skip
    for name in requests:
        _check_fits(f"gradient of {name}", grads[name], graph.specs[Entry(graph.arguments[name])])
    grad_table = {name: grads.get(name) for name in arguments}
    arena = None if shared_exec is None else shared_exec._arena
    arrays = (arg_table, grad_table, aux_table)
    return _made(symbol, place, graph, arrays, arena, memory_budget, devices, group2ctx or {})


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
    shared_arg_names, shared_exec : arguments whose arrays are taken from another executor
    shared_buffer : arrays by name (gradients: `grad of NAME`) that are used where they are large enough,
        and added to; arguments in `shared_arg_names` stay out of it
    memory_budget, passes, memory_mode, branches : as in `bind`
    **kwargs : shapes by argument; 0 is an unknown dimension

    Raises
    ------
    ShapeError, DTypeError  contradiction, or a shape that cannot be inferred
    """
    place = _place(ctx)
    planning = _planning(place, memory_mode, branches, memory_budget)
    if shared_buffer is not None and not isinstance(shared_buffer, dict):
        raise TypeError(f"[simple_bind] shared_buffer: expected a dict, got {type(shared_buffer).__name__}")
    for name, stype in (stype_dict or {}).items():
        if stype != "default":
            raise MXNetError(f"[simple_bind] {name}: storage type {stype!r} cannot be bound")
    arguments, _ = variables_of(symbol.nodes)
    check_names(kwargs, symbol.list_inputs(), "simple_bind")
    check_names(type_dict or {}, symbol.list_inputs(), "simple_bind")
    requests = _requests(grad_req, list(arguments))
    graph, devices = _planned(
        symbol,
        {name: legacy_in(shape_of(shape, f"simple_bind {name}")) for name, shape in kwargs.items()},
        {
            name: dtypes.code(kind, f"[simple_bind] type_dict {name}") for name, kind in (type_dict or {}).items()
        },
        requests, place, Passes.parse(passes), group2ctx or {}, {}, planning,
    )  # fmt: skip
    pool = _Pool(place, devices, shared_exec, shared_arg_names, shared_buffer)
    args = {name: pool.argument(name, graph, node) for name, node in graph.arguments.items()}
    aux = {name: pool.auxiliary(name, graph, node) for name, node in graph.auxiliaries.items()}
    grads: dict[str, NDArray | None] = {}
    for name, node in graph.arguments.items():
        wanted = requests.get(name, "null") != "null"
        grads[name] = pool.gradient(name, graph, node) if wanted else None
    arena = None if shared_exec is None else shared_exec._arena
    arrays = (args, grads, aux)
    return _made(symbol, place, graph, arrays, arena, memory_budget, devices, group2ctx or {})


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


def _planned(
    symbol: Symbol,
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
    heads = closed_shapes(symbol.entries, shapes)
    devices = Devices(heads, place, groups, arrays if groups else {})
    if any(map(is_dynamic, symbol.nodes)):
        return build_in_pieces(heads, shapes, types, requests, devices, passes), devices
    graph = build(heads, shapes, types, requests, place, passes, planning=planning)
    return graph, devices if devices.several else None


def _made(
    symbol: Symbol,
    place: Context,
    graph: BoundGraph,
    arrays: tuple[dict[str, NDArray], dict[str, NDArray | None], dict[str, NDArray]],
    arena: Arena | None,
    memory_budget: int | None,
    devices: Devices | None,
    groups: Mapping[str, Context],
) -> Executor:
    if devices is None:
        return Executor(symbol, place, graph, arrays, arena, memory_budget=memory_budget)
    executor: Executor
    if any(map(is_dynamic, graph.schedule)):
        if memory_budget is not None:
            raise ArgumentError("[bind] memory_budget: expected shapes that are known before the graph runs")
        executor = PiecewiseExecutor(symbol, place, graph, arrays, devices)
    else:
        grads = {name: array.context for name, array in arrays[1].items() if array is not None}
        graph = devices.bound_with_copies(graph, grads)
        executor = PlacedExecutor(symbol, place, graph, arrays, devices, arena, memory_budget)
    executor._groups = dict(groups)
    return executor


class _Pool:
    """Where the arrays of `simple_bind` come from."""

    def __init__(
        self,
        ctx: Context,
        devices: Devices | None,
        shared_exec: Executor | None,
        shared_names: Sequence[str] | None,
        buffer: dict[str, NDArray] | None,
    ) -> None:
        self._ctx = ctx
        self._devices = devices
        self._shared = shared_exec
        self._names = shared_names
        self._buffer = buffer

    def _new(self, spec: TensorSpec, node: Node) -> NDArray:
        ctx = self._ctx if self._devices is None else self._devices.of(node)
        return nd.zeros(spec.shape, ctx, dtypes.name(spec.dtype))

    def _fitting(self, array: NDArray | None, spec: TensorSpec) -> NDArray | None:
        if array is None or dtypes.code(array.dtype) != spec.dtype:
            return None
        return array if array.shape == spec.shape else None

    def _is_shared(self, name: str) -> bool:
        return self._shared is not None and (self._names is None or name in self._names)

    def argument(self, name: str, graph: BoundGraph, node: Node) -> NDArray:
        spec = graph.specs[Entry(node)]
        if self._is_shared(name) and self._shared is not None:
            found = self._fitting(self._shared.arg_dict.get(name), spec)
            if found is not None:
                return found
            if self._names is not None:
                raise ShapeError(
                    f"[simple_bind] {name}: expected {spec} in the shared executor, got "
                    f"{getattr(self._shared.arg_dict.get(name), 'shape', None)}"
                )
        return self._buffered(name, name, spec, node)

    def _buffered(self, key: str, name: str, spec: TensorSpec, node: Node) -> NDArray:
        if self._buffer is None or name in (self._names or ()):
            return self._new(spec, node)
        array = self._buffer.get(key)
        if (
            array is None
            or dtypes.code(array.dtype) != spec.dtype
            or bytes_of(spec) > array.size * dtypes.itemsize(spec.dtype)
        ):
            array = self._buffer[key] = self._new(spec, node)
        return view_as(array, spec.shape)

    def gradient(self, name: str, graph: BoundGraph, node: Node) -> NDArray:
        spec = graph.specs[Entry(node)]
        if self._is_shared(name) and self._shared is not None:
            found = self._fitting(self._shared.grad_dict.get(name), spec)
            if found is not None:
                return found
        return self._buffered(f"grad of {name}", name, spec, node)

    def auxiliary(self, name: str, graph: BoundGraph, node: Node) -> NDArray:
        spec = graph.specs[Entry(node)]
        if self._shared is not None:
            found = self._fitting(self._shared.aux_dict.get(name), spec)
            if found is not None:
                return found
        return self._new(spec, node)


def view_as(array: NDArray, shape: tuple[int, ...]) -> NDArray:
    """The first elements of an array in another shape; shares memory."""
    if array.shape == shape:
        return array
    size = 1
    for extent in shape:
        size *= extent
    flat = array.reshape((-1,))
    return (flat if size == array.size else flat[:size]).reshape(shape)


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
    graph, devices = _planned(
        executor._symbol, shapes, types, requests, executor._context, old.passes, executor._groups,
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
    return _made(
        executor._symbol, executor._context, graph, (args, grads, aux), executor._arena,
        executor._memory_budget, devices, executor._groups,
    )  # fmt: skip


def _named(arrays: Arrays, names: list[str], what: str) -> dict[str, NDArray]:
    if isinstance(arrays, Mapping):
        for name in names:
            if name not in arrays:
                unknown = [f"`{key}`" for key in arrays if key not in names]
                hint = f"; of no use are {', '.join(unknown)}" if unknown else ""
                raise ArgumentError(f"key `{name}` is missing in `{what}`{hint}")
        table = {name: arrays[name] for name in names}
    else:
        if not isinstance(arrays, (list, tuple)):
            raise TypeError(
                f"[bind] {what}: expected a list or a dict of NDArrays, got {type(arrays).__name__}"
            )
        given = list(arrays)
        if len(given) != len(names):
            raise ArgumentError(
                f"Length of {what} does not match the number of arguments: expected {len(names)} "
                f"({', '.join(names)}), got {len(given)}"
            )
        table = dict(zip(names, given, strict=True))
    for name, array in table.items():
        if not isinstance(array, NDArray):
            raise TypeError(f"[bind] {what} {name}: expected an NDArray, got {type(array).__name__}")
    return table


def _named_grads(
    grads: Sequence[NDArray | None] | Mapping[str, NDArray] | None, names: list[str]
) -> dict[str, NDArray | None]:
    if grads is None:
        return {}
    if isinstance(grads, Mapping):
        return {name: grads.get(name) for name in names}
    if len(grads) != len(names):
        raise ArgumentError(
            f"Length of args_grad does not match the number of arguments: expected {len(names)}, "
            f"got {len(grads)}"
        )
    return dict(zip(names, grads, strict=True))


def _requests(grad_req: str | Sequence[str] | Mapping[str, str], names: list[str]) -> dict[str, str]:
    if isinstance(grad_req, str):
        table = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, Mapping):
        table = {name: grad_req.get(name, "null") for name in names}
    else:
        if len(grad_req) != len(names):
            raise ArgumentError(f"[bind] grad_req: expected {len(names)} values, got {len(grad_req)}")
        table = dict(zip(names, grad_req, strict=True))
    for name, request in table.items():
        if request not in _REQUESTS:
            raise ArgumentError(
                f"[bind] grad_req of {name}: expected one of {', '.join(_REQUESTS)}, got {request!r}"
            )
    return table


def _check_fits(what: str, array: NDArray | None, spec: TensorSpec) -> None:
    if array is None:
        return
    if not isinstance(array, NDArray):
        raise TypeError(f"[bind] {what}: expected an NDArray, got {type(array).__name__}")
    if array.shape != spec.shape:
        raise ShapeError(f"[bind] {what}: expected shape {spec.shape}, got {array.shape}")
    if dtypes.code(array.dtype) != spec.dtype:
        raise DTypeError(f"[bind] {what}: expected {dtypes.name(spec.dtype)}, got {np_name(array)}")


def np_name(array: NDArray) -> str:
    """Name of an array's element type."""
    return dtypes.name(dtypes.code(array.dtype))
