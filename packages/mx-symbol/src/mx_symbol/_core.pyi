# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic, TypeVar

from mx_core.kernels import TensorSpec
from mx_core.operator import Operator, Params
from mx_symbol.graph.facts import Facts
from mx_symbol.graph.gradient import Recipe
from mx_symbol.graph.node import Entry, Node
from mx_symbol.memory.plan import Placement, Step

T = TypeVar("T")

#: offsets in an arena are multiples of this many bytes
ALIGNMENT: int

class FlatGraph:
    """Threads: belongs to the one that compiles."""

    def __init__(self, nodes: list[Node]) -> None: ...
    @property
    def nodes(self) -> tuple[Node, ...]: ...
    @property
    def outside(self) -> list[Entry]: ...
    @property
    def kinds(self) -> list[Facts]: ...
    @property
    def variables(self) -> list[Node]: ...
    def select(self, ask: Callable[[Facts], bool]) -> list[Node]: ...
    @property
    def n_entries(self) -> int: ...
    def number(self, entry: Entry) -> int: ...
    def forward_specs(
        self,
        known: dict[Entry, TensorSpec],
        ask: Callable[[Node, tuple[TensorSpec, ...]], tuple[TensorSpec, ...] | None],
    ) -> dict[Entry, TensorSpec] | None: ...

class Inference(Generic[T]):
    """Threads: belongs to the one that compiles."""

    def __init__(
        self,
        graph: FlatGraph,
        rule: Callable[[Node, Any, Any], tuple[Sequence[T | None], Sequence[T | None]]],
        merge: Callable[[Entry, T | None, T | None], T | None],
    ) -> None: ...
    def get(self, entry: Entry) -> T | None: ...
    def assign(self, entry: Entry, value: T | None) -> None: ...
    def run(self) -> None: ...

def specs_of(
    shapes: Inference[tuple[int, ...]], codes: Inference[int], make: Callable[[Entry, Any, Any], TensorSpec]
) -> dict[Entry, TensorSpec]: ...
def gradient(
    graph: FlatGraph,
    heads: list[Entry],
    head_grads: list[Entry | None],
    variables: list[Node],
    node: type[Node],
    group: str,
    add: tuple[Operator, Params],
    zeros: Callable[[Entry], Node],
    total: Callable[[Entry, list[Entry]], Node],
    recipe: Callable[[Facts], Recipe | None],
    chained: int,
) -> tuple[list[Entry | None], list[Node]]: ...
def topological_order(heads: Iterable[Node]) -> list[Node]: ...
def scheduled(graph: FlatGraph, forward: frozenset[Node], times: dict[Node, int], mark: str) -> FlatGraph: ...
def replaced(
    heads: list[Entry],
    mapping: dict[Entry, Entry],
    copy: Callable[[Node, list[Entry]], Node],
    specs: dict[Entry, TensorSpec] | None = None,
) -> list[Entry]: ...
def fusion_groups(
    graph: FlatGraph,
    specs: dict[Entry, TensorSpec],
    forward: frozenset[Node],
    values: Callable[[Facts], int],
    kind: Callable[[Node], int],
    heads: list[Entry],
    kernel: tuple[int, int, int],
    span: int,
    searched: int,
) -> list[tuple[int, list[Node], list[Entry], list[Entry]]]: ...
def duplicates(
    graph: FlatGraph, forward: frozenset[Node], ask: Callable[[Node], tuple[bool, bool]], group: str
) -> list[tuple[Node, Node]]: ...
def add_nodes(
    program: Program,
    schedule: FlatSchedule,
    order: Sequence[int],
    calls: list[Any],
    microseconds: Sequence[float],
    arrays: dict[Entry, int],
    arena: int,
    placements: dict[int, Placement],
    adds: set[Entry],
    item_size: Callable[[int], int],
    is_train: bool,
    mark: str,
) -> None: ...

class FlatSchedule:
    """Threads: belongs to the one that compiles."""

    def __init__(
        self,
        graph: FlatGraph,
        specs: dict[Entry, TensorSpec],
        kept: Iterable[Entry],
        after: Sequence[tuple[int, ...]],
    ) -> None: ...
    @property
    def values(self) -> dict[Entry, int]: ...
    @property
    def names(self) -> dict[int, str]: ...
    @property
    def steps(self) -> tuple[Step, ...]: ...
    @property
    def signatures(self) -> list[int]: ...
    @property
    def firsts(self) -> list[int]: ...
    def touched(self, external: Collection[Entry]) -> list[Entry]: ...

def longest_path(steps: Sequence[Step], microseconds: Sequence[float], n_forward: int | None) -> float: ...

class Blocks:
    """Threads: belongs to the one that compiles."""

    def __init__(
        self,
        steps: Sequence[Step],
        sizes: Sequence[int],
        external: Iterable[int],
        hosts: dict[int, int],
        may_take_over: Callable[[int, int], bool] | None = None,
    ) -> None: ...
    @property
    def live(self) -> int: ...
    @property
    def in_arena(self) -> list[tuple[list[int], int]]: ...
    def place(
        self, greedy_blocks: int, rounds: int, flow: Sequence[tuple[bytes, bytes]] | None = None
    ) -> tuple[list[int], int]: ...
    def placements(self, offsets: Sequence[int]) -> dict[int, Placement]: ...

class Program:
    """Threads: one builds it; once sealed, any may bind it."""

    def __init__(
        self, engine: Any, invoke: Any, random: Any, context: tuple[int, int], name: str
    ) -> None: ...
    def add_array(self, arena: bool = False) -> int: ...
    def add_slot(self, array: int, offset: int, dtype: int, item_size: int, shape: Sequence[int]) -> int: ...
    def add_node(
        self,
        name: str,
        call: Any,
        inputs: Sequence[int],
        outputs: Sequence[int],
        req: Sequence[int],
        mutated: Sequence[int],
        unread: Sequence[int],
        scalars: Sequence[float],
        is_train: bool,
        prepared: bool = False,
        microseconds: float = 0.0,
        order: int = 0,
    ) -> None: ...
    def seal(
        self,
        ends: Sequence[int],
        limits: Sequence[int] = ...,
        branches: Sequence[tuple[int, int, Sequence[int]]] = ...,
    ) -> None: ...
    def segments(self, part: int) -> int: ...
    def memo(self) -> Memo: ...
    def bind(self, arrays: list[Any], memo: Memo | None = None) -> Binding: ...

class Memo:
    """Threads: any."""

class Binding:
    """Threads: any may push; the engine orders what runs."""

    def push(self, part: int, priority: int = 0) -> None: ...

class Calls:
    """A program on arrays that are new at each call. Threads: any."""

    def __init__(
        self,
        program: Program,
        memo: Memo,
        empty: Callable[..., Any],
        kept: list[Any],
        inputs: Sequence[tuple[int, int]],
        outputs: Sequence[tuple[int, int, tuple[Any, ...]]],
        arena: tuple[Any, ...] | None,
        head_grads: Sequence[tuple[int, int]],
        grads: Sequence[tuple[int, int, tuple[Any, ...]]],
    ) -> None: ...
    def forward(self, given: tuple[Any, ...], arena: Any) -> tuple[list[Any], list[Any]]:
        """Starts the first part; all arrays, and the outputs. Without an arena a new one is among the arrays."""

    def backward(
        self,
        forward: list[Any],
        head_grads: Sequence[Any],
        targets: Sequence[Any],
        program: Program | None = None,
        memo: Memo | None = None,
    ) -> list[Any]:
        """Starts the second part on the arrays of the first; gradients of the inputs, in targets where there are."""

class CollectorPause:
    """Threads: any."""

    def __init__(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *failure: object) -> None: ...

def end_collector_pauses() -> None: ...
