# SPDX-License-Identifier: Apache-2.0
"""Graph passes of plug-ins: which there are, in which order, and what they may do.

Stages: `graph` sees every graph that is bound, before it is differentiated; `inference` follows for
graphs that are bound without gradients. A pass is a function from heads (a tuple of `Entry`) to heads;
`mx_symbol.graph.rewrite` is the tool for it. It must not change the graph it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mx_core import plugins
from mx_core.errors import PluginError
from mx_core.kernels import resolve
from mx_symbol.graph import Entry, topological_order

STAGES = ("graph", "inference")
Heads = tuple[Entry, ...]


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
            raise PluginError(f"graph passes of stage {stage!r} ask to run before each other: {stuck}")
        result.append(free[0])
    return result


def apply_passes(heads: Sequence[Entry], has_gradients: bool) -> Heads:
    """The graph after every pass that applies.

    Raises
    ------
    PluginError  a pass returns something else than a graph with the same outputs on the same variables
    """
    entries = {entry.name: entry for entry in plugins.registry("graph_passes").items()}
    specs = {name: entry.value for name, entry in entries.items()}
    for name, spec in specs.items():
        if spec.stage not in STAGES:
            raise PluginError(
                f"graph pass {name!r} of {entries[name]} has the stage {spec.stage!r}; expected one "
                f"of {', '.join(STAGES)}"
            )
    current = tuple(heads)
    for stage in STAGES[:1] if has_gradients else STAGES:
        for name in ordered(specs, stage):
            function = resolve(specs[name].apply)
            current = _applied(name, str(entries[name]), function, current)
    return current


def _applied(name: str, source: str, function: Callable[..., Any], heads: Heads) -> Heads:
    result = function(heads)
    where = f"graph pass {name!r} of {source}"
    if not isinstance(result, tuple) or not all(isinstance(entry, Entry) for entry in result):
        raise PluginError(f"{where} returned {type(result).__name__}; expected a tuple of Entry")
    if len(result) != len(heads):
        raise PluginError(f"{where} returned {len(result)} outputs; expected {len(heads)}")
    before, after = _variables(heads), _variables(result)
    if not after <= before:
        new = ", ".join(sorted(node.name for node in after - before))
        raise PluginError(f"{where} made new variables: {new}")
    return result


def _variables(heads: Heads) -> set[Any]:
    return {node for node in topological_order(e.node for e in heads) if node.is_variable}
