# SPDX-License-Identifier: Apache-2.0
"""Graph passes: which there are, in which order they run, how they are switched off.

`mx_core.graph` has the contract of a pass and the stages. Passes are registered with the hook
`mx_register_graph_passes`.

`MX_PASSES`, and the argument `passes` of bind, choose among them: `-fuse,-cse` leaves two out,
`fuse` runs that one alone, `none` runs none, `all` all. Passes that change results (`OPTIONAL`) run only when
they are named: `+bfloat16` adds one.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mx_core import plugins
from mx_core.errors import ArgumentError, MXNetError, OperatorError, PluginError
from mx_core.exits import exits_refused
from mx_core.graph import PREPARED
from mx_core.plugins import Entry as Contribution
from mx_symbol.graph import Node
from mx_symbol.graph.ir import Graph
from mx_symbol.passes.changes import changed
from mx_symbol.passes.untouched import Untouched

#: what changes results by more than rounding in another order
OPTIONAL = frozenset({"amp", "bfloat16"})
#: the environment variable
VARIABLE = "MX_PASSES"

#: optional passes that run all the same
_always: set[str] = set()

Observer = Callable[[str, str, Graph, Graph], None]


@dataclass(frozen=True)
class Passes:
    """A choice among the registered passes.

    Attributes
    ----------
    off : names that do not run
    only : if given, the names that run
    """

    off: frozenset[str] = OPTIONAL
    only: frozenset[str] | None = None

    @classmethod
    def parse(cls, text: str | None = None) -> Passes:
        """From text as in `MX_PASSES`, which is what counts where there is none.

        Raises
        ------
        ArgumentError  a name that no pass has
        """
        given = os.environ.get(VARIABLE, "") if text is None else text
        if not isinstance(given, str):
            raise ArgumentError(f"[passes] expected text such as '-fuse,-cse', got {given!r}")
        words = [word.strip() for word in given.split(",") if word.strip()]
        known = set(plugins.registry("graph_passes").names())
        off: set[str] = set()
        only: set[str] = set()
        added: set[str] = set()
        for word in words:
            name = word.lstrip("+-")
            if name not in known | {"all", "none"}:
                close = difflib.get_close_matches(name, known, 1)
                hint = (
                    f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(sorted(known))}"
                )
                raise ArgumentError(f"[passes] no graph pass is named {name!r}{hint}")
            (off if word.startswith("-") else added if word.startswith("+") else only).add(name)
        if "none" in only or "all" in off:
            return cls(frozenset(off), frozenset(added))
        off |= OPTIONAL - _always - added - only
        return cls(frozenset(off), frozenset(only | added) if only - {"all"} else None)

    def has(self, name: str) -> bool:
        """True when the pass runs."""
        return name not in self.off and (self.only is None or name in self.only)


def always(name: str, wanted: bool = True) -> None:
    """Runs an optional pass in every graph that does not leave it out, or no longer does."""
    (_always.add if wanted else _always.discard)(name)
    changed()


def is_always(name: str) -> bool:
    """Whether an optional pass runs in every graph."""
    return name in _always


def ordered(specs: Mapping[str, Any], stage: str) -> list[str]:
    """Names of the passes of a stage in an order that respects `after` and `before`.

    Among passes that may run in any order the alphabet decides, so that installation order does not.

    Raises
    ------
    PluginError  the passes ask for a circle
    """
    names = sorted(name for name, spec in specs.items() if spec.stage == stage)
    earlier: dict[str, set[str]] = {name: set() for name in names}
    for name in names:
        earlier[name].update(other for other in specs[name].after if other in earlier)
        for other in specs[name].before:
            if other in earlier:
                earlier[other].add(name)
    result: list[str] = []
    while len(result) < len(names):
        free = [n for n in names if n not in result and earlier[n] <= set(result)]
        if not free:
            stuck = ", ".join(n for n in names if n not in result)
            raise PluginError(f"graph passes of stage {stage!r} must each run before the other: {stuck}")
        result.append(free[0])
    return result


def run_stage(graph: Graph, stage: str, chosen: Passes, observe: Observer | None = None) -> Graph:
    """The graph after the chosen passes of a stage.

    Parameters
    ----------
    observe : function of (stage, name of a pass, graph before, graph after), optional

    Notes
    -----
    A pass that is missing, raises, writes into what it gets, or returns something else than a graph with the same
    heads on the same variables is disabled with a warning, and the graph is used without it, as it was before.

    Raises
    ------
    OperatorError  an operator of the graph is declared wrongly
    MXNetError  a pass of ours refuses the graph
    """
    registered = plugins.registry("graph_passes").items()
    entries = {entry.name: entry for entry in registered if not plugins.is_aside(entry)}
    for name in _order(entries, stage):
        if not chosen.has(name):
            continue
        try:
            where = f"graph pass {name!r}"
            if entries[name].is_first_party:
                with exits_refused(where):
                    result = entries[name].value.apply(graph)
                after = _checked(where, result, graph)
            else:
                after = _by_stranger(where, entries[name].value.apply, graph)
        except OperatorError:  # of an operator in the graph, not of the pass
            raise
        except MemoryError:
            raise
        except Exception as error:
            refusal = isinstance(error, MXNetError) and not isinstance(error, PluginError)
            if refusal and entries[name].is_first_party:
                raise
            plugins.set_aside(entries[name], error)
            continue
        if observe is not None:
            observe(stage, name, graph, after)
        graph = after
    return graph


def _order(entries: dict[str, Contribution], stage: str) -> list[str]:
    """The passes of a stage in order; strangers' that ask for a circle are set aside."""
    try:
        return ordered({name: entry.value for name, entry in entries.items()}, stage)
    except PluginError as error:
        strangers = [
            entry for entry in entries.values() if entry.value.stage == stage and not entry.is_first_party
        ]
        if not strangers:
            raise
        for entry in strangers:
            if entry.value.after or entry.value.before:
                plugins.set_aside(entry, error)
        kept = {name: entry for name, entry in entries.items() if not plugins.is_aside(entry)}
        if len(kept) == len(entries):
            raise
        return _order(kept, stage)


def _by_stranger(where: str, function: Callable[..., Any], graph: Graph) -> Graph:
    """What a stranger's pass makes of a graph, which keeps what it has whatever the pass does.

    Raises
    ------
    PluginError  the pass wrote into the graph, or returned what cannot be run
    """
    untouched = Untouched(graph)
    written = ""
    try:
        with exits_refused(where):
            result = function(graph)
    finally:
        written = untouched.put_back()
    if written:
        raise PluginError(f"it writes into the graph that it gets: into {written}")
    after = _checked(where, result, graph)
    if after is graph:
        return graph
    # What the pass has set in its own graph, or asked it before it changed it, does not count.
    own = Graph(
        after.outputs, after.grads, after.specs, graph.context, graph.is_train, after.times, graph.kernels
    )
    _check_nodes(own)
    return own


def _checked(where: str, result: Any, graph: Graph) -> Graph:
    """The result of a pass, if it has the heads of the graph and no new variables."""
    if not isinstance(result, Graph):
        raise PluginError(f"{where} returned {type(result).__name__}; expected a Graph")
    if result is graph:
        return graph
    if (len(result.outputs), len(result.grads)) != (len(graph.outputs), len(graph.grads)):
        raise PluginError(
            f"{where} returned {len(result.outputs)} outputs and {len(result.grads)} gradients; expected "
            f"{len(graph.outputs)} and {len(graph.grads)}"
        )
    for old, new in zip(graph.heads, result.heads, strict=True):
        if result.specs.get(new) != graph.specs[old]:
            raise PluginError(
                f"{where} made {old.name!r} {result.specs.get(new)}; expected {graph.specs[old]}"
            )
    fresh = result.variables - graph.variables
    if fresh:
        raise PluginError(f"{where} made new variables: {', '.join(sorted(node.name for node in fresh))}")
    return result


def _check_nodes(graph: Graph) -> None:
    """PluginError for an entry that is no output of its node, or of which nothing is known, for a circle, and for a
    prepared node that reads what is not.
    """
    for head in graph.heads:
        graph.whole.number(head)
    before: set[Node] = set()
    for node in graph.whole.nodes:
        prepared = not node.is_variable and PREPARED in node.attrs
        for entry in node.inputs:
            if entry.node not in before:
                raise PluginError(f"node {node.name!r} would depend on itself")
            if entry not in graph.specs:
                raise PluginError(
                    f"node {node.name!r} reads {entry.name!r}, whose shape is not known; make nodes with Graph.apply"
                )
            if prepared and not entry.node.is_variable and PREPARED not in entry.node.attrs:
                raise PluginError(
                    f"node {node.name!r} has the attribute {PREPARED!r} and reads {entry.name!r}, which is neither "
                    "a variable nor prepared"
                )
        before.add(node)
    _ = graph.flat  # the nodes in their order, which needs places that are numbers
