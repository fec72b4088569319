# SPDX-License-Identifier: Apache-2.0
"""Recomputation: a training schedule that fits a memory budget, because values are computed twice.

The run of the schedule is simulated in a limited memory. Where memory runs out, the resident value is dropped
whose recomputation costs least for the bytes it frees and the time until it is read again; where a
dropped value is read, the nodes that make it run again. That is dynamic tensor rematerialization
(Kirisame et al., ICLR 2021) with two differences: the future is known, so the distance to the next read
takes the place of staleness (Belady, 1966), and the trace becomes a schedule, so at run time it costs
nothing. What may run again is what gives the same numbers: no random draws, and auxiliary states are
copied, so that a statistic is not updated twice.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mx_core.errors import ArgumentError, MXNetError
from mx_core.kernels import TensorSpec
from mx_symbol._core import ALIGNMENT
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.gradient import apply_plain
from mx_symbol.graph.planning import Planning
from mx_symbol.memory.cost import cost
from mx_symbol.memory.schedule import make_schedule
from mx_symbol.passes.bound_graph import BoundGraph

#: how often the limit is tightened until the plan, which also has gaps, fits the budget
ATTEMPTS = 16
#: how many of the values that look cheapest to drop are priced
CANDIDATES = 16

MayRepeat = Callable[[Node], bool]


@dataclass(frozen=True)
class Recomputed:
    """A graph that fits, and what that costs.

    Attributes
    ----------
    graph : the same heads and gradients, with nodes that run again
    total_bytes : arena of its training plan
    extra_cost : cost of the nodes that run again, relative to all others
    """

    graph: BoundGraph
    total_bytes: int
    extra_cost: float


def within_budget(graph: BoundGraph, budget: int | None) -> BoundGraph:
    """The graph that is run: recomputing for a budget, or because mirroring is asked for.

    MXNET_BACKWARD_DO_MIRROR=1 repeats cheap operators alone, as in MXNet (Chen et al., Training Deep Nets
    with Sublinear Memory Cost, 2016); a node's attribute `__force_mirroring__` names further ones. Only as
    many run again as bring the peak down.
    """
    if budget is not None:
        plain = fit_budget(replace(graph, planning=Planning()), budget).graph
        return replace(plain, planning=replace(graph.planning, memory_mode="least_memory"))
    cheap = os.environ.get("MXNET_BACKWARD_DO_MIRROR", "0") not in ("", "0")
    if graph.grads and (cheap or any(map(is_forced, graph.schedule))):
        asked = replace(graph, planning=Planning())
        least = least_memory(asked, lambda node: is_forced(node) or (cheap and is_cheap(node))).graph
        return replace(least, planning=graph.planning)
    return graph


def fit_budget(graph: BoundGraph, budget: int) -> Recomputed:
    """The training schedule with the least recomputation found that needs at most `budget` bytes.

    Parameters
    ----------
    budget : int
        Bytes for intermediate values; arguments, outputs and gradients lie in arrays and do not count.

    Raises
    ------
    ArgumentError  the budget is no positive number
    MXNetError     it is less than any schedule found needs; names that least
    """
    if isinstance(budget, bool) or not isinstance(budget, int) or budget <= 0:
        raise ArgumentError(f"[bind] memory_budget: expected a positive number of bytes, got {budget!r}")
    planned = make_schedule(graph, True).plan.total_bytes
    if planned <= budget or not graph.grads:
        return Recomputed(graph, planned, 0.0)
    limit = budget
    for _ in range(ATTEMPTS):
        found = _try(graph, limit, _anything)
        if found is None:
            break
        if found.total_bytes <= budget:
            return found
        limit = int(limit * min(budget / found.total_bytes, 0.99))
    least = least_memory(graph)
    if least.total_bytes <= budget:
        return least
    raise MXNetError(
        f"[bind] memory_budget={budget}: intermediate values need {planned} bytes, and "
        f"{least.total_bytes} with the recomputation found; give at least that, or a smaller batch"
    )


def least_memory(graph: BoundGraph, may_repeat: MayRepeat | None = None) -> Recomputed:
    """The schedule that needs least memory, by bisection over limits.

    Parameters
    ----------
    may_repeat : function of a node, optional
        Which nodes may run again; by default all that give the same numbers.
    """
    allowed = _anything if may_repeat is None else may_repeat
    best = Recomputed(graph, make_schedule(graph, True).plan.total_bytes, 0.0)
    low, high = 0, best.total_bytes
    while high - low > max(high // 100, ALIGNMENT):
        middle = (low + high) // 2
        found = _try(graph, middle, allowed)
        if found is None:
            low = middle
            continue
        high = middle
        if found.total_bytes < best.total_bytes:
            best = found
    return best


def is_cheap(node: Node) -> bool:
    """True for what MXNET_BACKWARD_DO_MIRROR repeats: all but products, convolutions and joins."""
    assert node.op is not None
    name = node.op.name
    return not any(
        word in name.lower() for word in ("convolution", "connected", "concat", "softmax", "dot", "rnn")
    )


def is_forced(node: Node) -> bool:
    """True for a node whose attribute asks that it runs again in the backward pass."""
    return node.op is not None and node.attrs.get("__force_mirroring__", "").lower() in ("1", "true")


def _anything(node: Node) -> bool:
    return True


def repeatable(node: Node, specs: Mapping[Entry, TensorSpec]) -> bool:
    """True when running a node again gives the same numbers."""
    assert node.op is not None and node.params is not None
    if node.op.keeps_state or node.subgraphs or node.op.dynamic_output:
        return False
    shapes = [specs[Entry(node, i)].shape for i in range(node.num_outputs)]
    if node.facts.draws_for(shapes):
        return False
    return len(node.mutated) == len(node.op.aux(node.params))


def _try(graph: BoundGraph, limit: int, may_repeat: MayRepeat) -> Recomputed | None:
    try:
        run = _Simulation(graph, limit, may_repeat)
        run.run()
    except _DoesNotFitError:
        return None
    return run.result()


class _DoesNotFitError(Exception):
    """Memory ran out and nothing could be dropped."""


class _Simulation:
    """A run of the training schedule in which values have sizes and no contents.

    Values are numbered; `where` has the entry that holds a value at present, which is another node's
    than at first once the value was recomputed.
    """

    def __init__(self, graph: BoundGraph, limit: int, may_repeat: MayRepeat) -> None:
        self._graph, self._limit = graph, limit
        schedule = make_schedule(graph, True)
        self._nodes, self._steps, self._values = schedule.nodes, schedule.steps, schedule.values
        places = schedule.plan.placements
        self._sizes = [
            -(-size // ALIGNMENT) * ALIGNMENT if v in places and places[v].host < 0 else 0
            for v, size in enumerate(schedule.sizes)
        ]
        self._where = {v: entry for entry, v in self._values.items()}
        self._maker = [0] * len(self._sizes)
        self._uses: list[list[int]] = [[] for _ in self._sizes]
        for time, step in enumerate(self._steps):
            for v in step.writes:
                self._maker[v] = time
            for v in dict.fromkeys(step.reads):
                self._uses[v].append(time)
        self._costs = [cost(node, graph.specs) for node in self._nodes]
        n_forward = schedule.n_forward
        self._may = [
            i < n_forward and may_repeat(node) and repeatable(node, graph.specs)
            for i, node in enumerate(self._nodes)
        ]
        self._resident: dict[int, None] = {}
        self._pins = [0] * len(self._sizes)
        self._used = 0
        self._now = 0
        self._trace: list[Node] = []
        self._extra = 0.0
        self._n_forward = 0
        self._specs = dict(graph.specs)
        self._moved: dict[Entry, Entry] = {}

    # ---- the run ----

    def run(self) -> None:
        for time, node in enumerate(self._nodes):
            self._now = time
            if time == self._graph.n_forward:
                self._n_forward = len(self._trace)
            self._recompute_for(time)
            made = self._node(node, time, again=False)
            for i in range(node.num_outputs):
                if Entry(made, i) != Entry(node, i):
                    self._moved[Entry(node, i)] = Entry(made, i)
            self._account(time, self._steps[time].writes)
            for v in self._steps[time].writes:
                self._where[v] = Entry(made, self._where[v].index)
        if len(self._nodes) == self._graph.n_forward:
            self._n_forward = len(self._trace)

    def _recompute_for(self, time: int) -> None:
        """Makes resident what a step reads."""
        again = self._closure(v for v in self._steps[time].reads if v not in self._resident)
        order = sorted(again)
        pinned = [v for t in (*order, time) for v in dict.fromkeys(self._steps[t].reads)]
        for v in pinned:
            self._pins[v] += 1
        for t in order:
            node = self._nodes[t]
            made = self._node(node, t, again=True)
            wanted = [v for v in self._steps[t].writes if v not in self._resident and self._is_wanted(v)]
            self._account(t, wanted)
            for v in wanted:
                self._where[v] = Entry(made, self._where[v].index)
            self._extra += self._costs[t]
            for v in dict.fromkeys(self._steps[t].reads):
                self._pins[v] -= 1
        for v in dict.fromkeys(self._steps[time].reads):
            self._pins[v] -= 1

    def _closure(self, missing: Iterable[int]) -> set[int]:
        """Steps that must run again for the missing values; raises where one may not."""
        again: set[int] = set()
        stack = list(missing)
        while stack:
            t = self._maker[stack.pop()]
            if t in again:
                continue
            if not self._may[t]:
                raise _DoesNotFitError
            again.add(t)
            stack.extend(v for v in self._steps[t].reads if v not in self._resident)
        return again

    def _is_wanted(self, v: int) -> bool:
        return self._pins[v] > 0 or self._next_use(v) is not None

    def _next_use(self, v: int) -> int | None:
        """The step from now on that reads a value."""
        uses = self._uses[v]
        at = bisect_right(uses, self._now - 1)
        return uses[at] if at < len(uses) else None

    def _account(self, time: int, writes: Sequence[int]) -> None:
        """Memory of a step: what it writes comes, in place where that is allowed, and room is made."""
        step = self._steps[time]
        reads = dict.fromkeys(step.reads)
        given: set[int] = set()
        for i, o in step.inplace:
            source, target = step.reads[i], step.writes[o]
            if target in writes and source not in given and self._ends_here(source, time, target):
                given.add(source)
                self._forget(source)
        for v in reads:
            self._pins[v] += 1
        need = sum(self._sizes[v] for v in writes)
        while self._used + need > self._limit:
            self._drop_one()
        for v in reads:
            self._pins[v] -= 1
        for v in writes:
            self._resident[v] = None
        self._used += need

    def _ends_here(self, v: int, time: int, target: int) -> bool:
        return (
            v in self._resident
            and self._sizes[v] == self._sizes[target] > 0
            and self._steps[time].reads.count(v) == 1
            and self._pins[v] <= (time != self._now)
            and (self._next_use(v) is None or self._uses[v][-1] == time)
        )

    def _forget(self, v: int) -> None:
        del self._resident[v]
        self._used -= self._sizes[v]

    # ---- what to drop ----

    def _drop_one(self) -> None:
        """Drops the resident value that is cheapest to lose."""
        candidates = []
        for v in self._resident:
            if self._pins[v] or not self._sizes[v]:
                continue
            use = self._next_use(v)
            if use is None:
                self._forget(v)
                return
            maker = self._maker[v]
            if self._may[maker]:
                gain = self._sizes[v] * (use - self._now + 1)
                candidates.append((self._costs[maker] / gain, gain, v))
        candidates.sort()
        best, chosen = float("inf"), -1
        for i, (bound, gain, v) in enumerate(candidates):
            if bound >= best or (i >= CANDIDATES and chosen >= 0):
                break  # a value costs at least its own node
            score = self._price(v, best * gain) / gain
            if score < best:
                best, chosen = score, v
        if chosen < 0:
            raise _DoesNotFitError
        self._forget(chosen)

    def _price(self, v: int, limit: float) -> float:
        """Cost of all that would have to run again for a value if it were dropped; counted up to `limit`."""
        again: set[int] = set()
        stack = [v]
        total = 0.0
        while stack and total < limit:
            t = self._maker[stack.pop()]
            if t in again:
                continue
            if not self._may[t]:
                return float("inf")
            again.add(t)
            total += self._costs[t]
            stack.extend(u for u in self._steps[t].reads if u not in self._resident)
        return total

    # ---- the schedule that comes out ----

    def _current(self, entry: Entry) -> Entry:
        v = self._values.get(entry)
        return self._moved.get(entry, entry) if v is None else self._where[v]

    def _node(self, node: Node, time: int, again: bool) -> Node:
        """The node on the present entries: itself, or a copy."""
        inputs = [self._current(entry) for entry in node.inputs]
        if again:
            inputs = [self._copied(e) if i in node.mutated else e for i, e in enumerate(inputs)]
        made = node
        if again or inputs != node.inputs:
            made = node.copy(inputs)
            made.name = f"{node.name}_again" if again else node.name
            for i in range(node.num_outputs):
                self._specs[Entry(made, i)] = self._specs[Entry(node, i)]
        self._trace.append(made)
        return made

    def _copied(self, state: Entry) -> Entry:
        own = apply_plain("_copy", (state,), f"{state.name}_copy")
        self._specs[own] = self._specs[state]
        self._trace.append(own.node)
        return own

    def result(self) -> Recomputed:
        graph = self._graph
        grads = {name: self._moved.get(entry, entry) for name, entry in graph.grads.items()}
        heads = tuple(self._moved.get(entry, entry) for entry in graph.heads)
        made = replace(
            graph, heads=heads, schedule=tuple(self._trace), n_forward=self._n_forward, grads=grads,
            specs=self._specs,
        )  # fmt: skip
        total = make_schedule(made, True).plan.total_bytes
        return Recomputed(made, total, self._extra / max(sum(self._costs), 1.0))
