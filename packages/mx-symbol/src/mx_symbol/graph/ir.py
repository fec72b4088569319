# SPDX-License-Identifier: Apache-2.0
"""The graph as passes see it: nodes with shapes, types and readers, and two ways to change it.

It fulfils the contract `mx_core.graph.Graph`. A pass never changes a node. It makes new ones with `apply` and says
with `replace` which entries they stand for; what is no longer needed is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from mx_core import operators
from mx_core.cached import cached_property
from mx_core.context import Context
from mx_core.errors import NoKernelError, PluginError
from mx_core.graph import PREPARED
from mx_core.kernels import Prepared, TensorSpec, candidates, prepare
from mx_core.operator import Operator, Params
from mx_core.operator.distinct import distinct
from mx_symbol import _core
from mx_symbol._core import FlatGraph
from mx_symbol.graph import Entry, Node, topological_order
from mx_symbol.graph.facts import KEPT, facts_of

#: devices whose kernels count in `has_kernel`, whatever they decline; none: those of the graph's own that take a node
_counted: ContextVar[tuple[str, ...]] = ContextVar("mx_counted_devices", default=())


@contextmanager
def counting_kernels(*devices: str) -> Iterator[None]:
    """Passes make what kernels of these devices are registered for, to look at: a check asks what there could be.

    Threads: of the one that enters it alone.
    """
    token = _counted.set(devices)
    try:
        yield
    finally:
        _counted.reset(token)


class Kernels:
    """Kernels that were prepared for a graph, so that what a pass asked for is not prepared again when it is run.

    Threads: one at a time.
    """

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Prepared | None, Any]] = {}

    def get(
        self,
        op: Operator,
        params: Params,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        context: Context,
        is_train: bool,
    ) -> Prepared | None:
        """The kernel of a signature; None where there is none."""
        key = (facts_of(op, params), tuple(map(id, inputs)), tuple(map(id, outputs)), context, is_train)
        if key not in self._known:
            try:
                found = prepare(op, params, inputs, outputs, context, is_train)
            except NoKernelError:
                found = None
            self._known[key] = found, (inputs, outputs)  # which are held, so that their identities stay
        return self._known[key][0]


class Graph:
    """What one program computes.

    Threads: belongs to the one that compiles.

    Attributes
    ----------
    outputs : the entries that forward computes
    grads : the entries that backward computes; empty without gradients
    specs : shape and type of every entry
    context : where it runs
    is_train : operators behave as in training
    times : the place in the schedule that a node asks for
    kernels : those that passes have asked for; the graphs that are made of this one share them

    Parameters
    ----------
    whole : all nodes that the heads need, inputs before users, where they are at hand
    """

    def __init__(
        self,
        outputs: Sequence[Entry],
        grads: Sequence[Entry],
        specs: dict[Entry, TensorSpec],
        context: Context,
        is_train: bool = False,
        times: dict[Node, int] | None = None,
        kernels: Kernels | None = None,
        whole: FlatGraph | None = None,
    ) -> None:
        self.outputs = tuple(outputs)
        self.grads = tuple(grads)
        self.specs = specs
        self.context = context
        self.is_train = is_train
        if whole is not None:
            self.whole = whole
        self.times = {node: i for i, node in enumerate(self.whole.nodes)} if times is None else times
        self.kernels = Kernels() if kernels is None else kernels

    @property
    def heads(self) -> tuple[Entry, ...]:
        """Outputs, then gradients."""
        return (*self.outputs, *self.grads)

    @cached_property
    def head_set(self) -> frozenset[Entry]:
        """The same, for asking."""
        return frozenset(self.heads)

    @cached_property
    def whole(self) -> FlatGraph:
        """All nodes that the heads need in numbers, variables included, inputs before users."""
        return FlatGraph(topological_order(entry.node for entry in self.heads))

    @cached_property
    def forward(self) -> frozenset[Node]:
        """The nodes that the outputs need, variables included."""
        if not self.grads:
            return frozenset(self.whole.nodes)
        return frozenset(topological_order(entry.node for entry in self.outputs))

    @cached_property
    def variables(self) -> frozenset[Node]:
        """The variables that the heads need."""
        return frozenset(self.whole.variables)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Applications of operators in the order in which they run: forward, then backward.

        Nodes that passes made stand where the ones they replace stood, or just before their readers.
        """
        return self.flat.nodes

    @cached_property
    def readers(self) -> dict[Entry, list[tuple[Node, int]]]:
        """Per entry the nodes that read it, with the position among their inputs."""
        table: dict[Entry, list[tuple[Node, int]]] = {}
        for node in self.nodes:
            for position, entry in enumerate(node.inputs):
                table.setdefault(entry, []).append((node, position))
        return table

    def outputs_of(self, node: Node) -> tuple[Entry, ...]:
        """The entries of a node, hidden ones included."""
        return tuple(Entry(node, i) for i in range(node.num_outputs))

    @cached_property
    def flat(self) -> FlatGraph:
        """The nodes in numbers."""
        return _core.scheduled(self.whole, self.forward, self.times, PREPARED)

    def find(self, *names: str) -> Iterator[Node]:
        """Applications of the operators of these names, in order."""
        wanted = frozenset(names)
        return iter(self.flat.select(lambda facts: facts.op.name in wanted))

    def only_reader(self, entry: Entry) -> tuple[Node, int] | None:
        """The one node that reads an entry, if it is one and the entry is no head."""
        found = self.readers.get(entry, [])
        return found[0] if len(found) == 1 and entry not in self.head_set else None

    def apply(
        self,
        op: str | Operator,
        inputs: Sequence[Entry],
        name: str,
        params: Params | None = None,
        attrs: Mapping[str, str] | None = None,
        **values: Any,
    ) -> tuple[Entry, ...]:
        """The outputs of a new node.

        Parameters
        ----------
        op : an operator, or the name of one
        inputs : entries, auxiliary states last
        params : its parameters; or give them one by one as keywords

        Raises
        ------
        ShapeError, DTypeError, ArgumentError  the operator does not take such inputs
        """
        found = operators.get(op) if isinstance(op, str) else op
        given = parameters(found, values, name) if params is None else params
        return infer_specs(Node(found, given, name, dict(attrs or {}), inputs), self.specs)

    def has_kernel(
        self,
        op: Operator,
        params: Params,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
    ) -> bool:
        """True where something faster than a reference would compute a node."""
        if any(candidates(op, device) for device in _counted.get()):
            return True
        found = self.kernels.get(op, params, inputs, outputs, self.context, self.is_train)
        return found is not None and found.variant != "reference"

    def replace(self, mapping: Mapping[Entry, Entry]) -> Graph:
        """The graph in which entries on the left are replaced by those on the right, wherever they are read.

        The entries on the right may be made of others on the left, which are replaced in turn.

        Raises
        ------
        PluginError  shape or type differ, something is no entry of the graph or of what `apply` made, or the result
                     would depend on itself
        """
        if not mapping:
            return self
        times, specs = dict(self.times), self.specs
        for old, new in mapping.items():
            for entry in (old, new):
                if not isinstance(entry, Entry) or entry not in specs:
                    raise PluginError(f"expected an Entry of the graph or of what apply made, got {entry!r}")
            if specs[old] is not specs[new] and specs[old] != specs[new]:
                raise PluginError(
                    f"{old.name!r} is {specs[old]} and cannot be replaced by {new.name!r}, "
                    f"which is {specs[new]}"
                )
            if new.node.op is not None and old.node in times and new.node not in self.times:
                times[new.node] = max(times.get(new.node, 0), times[old.node])

        def copy(node: Node, inputs: list[Entry]) -> Node:
            made = node.copy(inputs)
            if node in times:
                times[made] = times[node]
            return made

        heads = _core.replaced(list(self.heads), dict(mapping), copy, specs)
        n = len(self.outputs)
        return Graph(heads[:n], heads[n:], specs, self.context, self.is_train, times, self.kernels)


#: parameters by operator and values: passes ask for the same again and again
_parameters: dict[Any, Params] = {}
#: types whose values are told apart by themselves
_PLAIN = frozenset((bool, int, float, str, type(None)))


def parameters(op: Operator, values: Mapping[str, Any], node: str | None = None) -> Params:
    """The parameters of an operator from values; equal ones are one object, which has its facts already."""
    items = [item for value in values.values() for item in (value if type(value) is tuple else (value,))]
    if not all(type(item) in _PLAIN for item in items):
        parsed: Params = op.Param.parse(values, op=op.name, node=node)
        return parsed
    key = (op, tuple(values), distinct(tuple(values.values())), tuple(map(type, items)))
    found = _parameters.get(key)
    if found is None:
        if len(_parameters) >= KEPT:
            _parameters.clear()
        found = _parameters[key] = op.Param.parse(values, op=op.name, node=node)
    return found


def changed(params: Params, **changes: Any) -> Any:
    """The same parameters with some changed; equal ones are one object, which has its facts already."""
    return _changed(params, tuple(changes.items()), distinct(tuple(changes.values())))


@lru_cache(maxsize=KEPT)
def _changed(params: Params, changes: tuple[tuple[str, Any], ...], _told_apart: object) -> Params:
    return params.replace(**dict(changes))


def infer_specs(node: Node, specs: dict[Entry, TensorSpec]) -> tuple[Entry, ...]:
    """Adds what a new node's outputs are to a table that has its inputs; returns the outputs.

    Raises
    ------
    ShapeError, DTypeError  the operator does not take such inputs
    """
    given = [specs[entry] for entry in node.inputs]
    made = node.facts.specs(tuple([(s.shape, s.dtype) for s in given]), node.name)
    if made is None:
        assert node.op is not None
        raise PluginError(f"[{node.op.name} {node.name!r}] has outputs whose shape or type is not known")
    outputs = tuple([Entry(node, i) for i in range(len(made))])
    specs.update(zip(outputs, made, strict=True))
    return outputs
