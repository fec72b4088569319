# SPDX-License-Identifier: Apache-2.0
"""The graph of a hybrid block: traced with symbols, inferred, and compiled as a cached operator."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mx_core.context import Context
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_gluon.block.monitoring import MonitoredOp
from mx_gluon.block.structure import Format, flatten, regroup
from mx_gluon.errors import DeferredInitializationError, RefusedError
from mx_gluon.parameter import Parameter
from mx_gluon.parameter.collected import Collected, present
from mx_ndarray import NDArray
from mx_symbol import CachedOp, Group, Symbol, sym

if TYPE_CHECKING:
    from mx_gluon.block.hybrid_block import HybridBlock

#: names of the inputs that are arrays, and what is computed from them
Graph = tuple[list[Symbol], Symbol]


def trace(block: HybridBlock, args: Sequence[Any]) -> tuple[Graph, Format, Format]:
    """The graph that `hybrid_forward` makes of symbols, with the formats of inputs and outputs.

    Raises
    ------
    ArgumentError  all arguments are None, or one is neither an array nor a list
    """
    flat, in_format = flatten(list(args), "input")
    count = sum(each is not None for each in flat)
    if count == 0:
        raise ArgumentError(f"[{block.name}] expected an array among the arguments, got {args!r}")
    names = iter(["data"] if count == 1 else [f"data{i}" for i in range(count)])
    variables = [None if each is None else sym.var(next(names)) for each in flat]
    params = {name: param.var() for name, param in block._reg_params.items()}
    with block.name_scope():
        made = block.hybrid_forward(sym, *regroup(variables, in_format), **params)
    outputs, out_format = flatten(made, "output")
    inputs = [each for each in variables if each is not None]
    return (inputs, Group(outputs)), in_format, out_format


def infer(block: HybridBlock, args: Sequence[Any], attribute: str) -> None:
    """Sets the shape (or `dtype`) of every parameter in a block's graph from arrays."""
    inputs, graph = block._get_graph(*args)
    arrays = [each for each in flatten(list(args), "input")[0] if each is not None]
    given = {str(each.name): getattr(array, attribute) for each, array in zip(inputs, arrays, strict=True)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        arguments, _, auxiliary = (graph.infer_shape if attribute == "shape" else graph.infer_type)(**given)
    if arguments is None or auxiliary is None:
        told = str(caught[0].message) if caught else "something stays unknown"
        raise ArgumentError(f"[{block.name}] infer_{attribute}: {told}")
    found: dict[str, Any] = dict(zip(graph.list_arguments(), arguments, strict=True))
    found |= zip(graph.list_auxiliary_states(), auxiliary, strict=True)
    for param in block._graph_parameters().values():
        if param.name in found:
            setattr(param, attribute, found[param.name])


def infer_deferred(block: HybridBlock, args: Sequence[Any]) -> None:
    """Tells parameters their shapes; the error says which block needed them.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError  the graph contradicts itself, or a shape stays unknown
    """
    try:
        block.infer_shape(*args)
    except (MXNetError, RefusedError) as error:
        kind = next((k for k in (ShapeError, DTypeError) if isinstance(error, k)), ArgumentError)
        raise kind(
            f"[{block.name}] deferred initialisation: the shapes of parameters cannot be inferred: {error}"
        ) from error


class Compiled:
    """A block's graph as one operator, with the place of each input: an argument's or a parameter.

    Threads: any; calls that share memory are ordered by the engine.

    Parameters
    ----------
    block : HybridBlock
        Whose graph and parameters; parameters whose initialisation waits for a shape get it.
    args : sequence
        Of the call.
    """

    def __init__(self, block: HybridBlock, args: Sequence[Any]) -> None:
        inputs, graph = block._get_graph(*args)
        params = block._graph_parameters()
        places = {each.name: i for i, each in enumerate(inputs)}
        needed = graph.list_inputs()
        unknown = [name for name in needed if name not in places and name not in params]
        if unknown:
            raise RefusedError(
                f"[{block.name}] hybridize: the graph needs {', '.join(unknown)}, neither inputs nor parameters"
            )
        _warn_of_unused(
            block, [i for name, i in places.items() if name not in needed], set(params) - set(needed)
        )
        used = [params[name] for name in needed if name not in places]
        try:
            for param in used:
                param.list_data()
        except DeferredInitializationError:
            infer_deferred(block, args)
            for param in used:
                param._finish_deferred_init()
        self.sources: list[int | Parameter] = [places[n] if n in places else params[n] for n in needed]
        flags = [
            ("data_indices", [i for i, source in enumerate(self.sources) if isinstance(source, int)]),
            ("param_indices", [i for i, source in enumerate(self.sources) if not isinstance(source, int)]),
            *block._flags,
        ]
        self._op: CachedOp | MonitoredOp
        if block._callback is not None:
            self._op = MonitoredOp(graph, flags, block._callback, block._monitor_all)
        else:
            self._op = CachedOp(graph, flags)
        self._given = [(i, source) for i, source in enumerate(self.sources) if isinstance(source, int)]
        self._known: Collected[list[Any]] = Collected()

    def __call__(self, arrays: Sequence[NDArray], ctx: Context) -> NDArray | list[NDArray]:
        """The outputs, one or several, for arrays that all lie on one context."""
        inputs = (self._known.get(ctx) or self._parameters(ctx)).copy()
        for place, i in self._given:
            inputs[place] = arrays[i]
        return self._op(*inputs)

    def _parameters(self, ctx: Context) -> list[Any]:
        """Values of the parameters at the places of all inputs."""
        version = present()
        values = [None if isinstance(source, int) else source.data(ctx) for source in self.sources]
        self._known.put(version, ctx, values)
        return values


def _warn_of_unused(block: HybridBlock, inputs: Sequence[int], params: Iterable[str]) -> None:
    if inputs:
        listed = ", ".join(map(str, inputs))
        warnings.warn(f"[{block.name}] inputs {listed} of the HybridBlock are not used", stacklevel=6)
    if listed := ", ".join(sorted(params)):
        warnings.warn(f"[{block.name}] parameters {listed} are not used", stacklevel=6)
