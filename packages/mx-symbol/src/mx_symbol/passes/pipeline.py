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
from mx_symbol._core import FlatGraph
from mx_symbol.graph import topological_order
from mx_symbol.graph.ir import Graph
from mx_symbol.passes.changes import changed

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
    A pass that is missing, raises, or returns something else than a graph with the same heads on the same
    variables is disabled with a warning, and the graph is used without it.

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
            after = _applied(f"graph pass {name!r}", entries[name].value.apply, graph)
            if not entries[name].is_first_party:
                _check_entries(after)
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


def _applied(where: str, function: Callable[..., Any], graph: Graph) -> Graph:
    with exits_refused(where):
        result = function(graph)
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


def _check_entries(graph: Graph) -> None:
    """PluginError for an entry that is no output of its node, and for a prepared node that reads what is not."""
    nodes = topological_order(entry.node for entry in graph.heads)
    numbered = FlatGraph(nodes)
    for head in graph.heads:
        numbered.number(head)
    for node in nodes:
        if node.is_variable or PREPARED not in node.attrs:
            continue
        for entry in node.inputs:
            if not entry.node.is_variable and PREPARED not in entry.node.attrs:
                raise PluginError(
                    f"node {node.name!r} has the attribute {PREPARED!r} and reads {entry.name!r}, which is neither "
                    "a variable nor prepared"
                )
