# SPDX-License-Identifier: Apache-2.0
"""Upgrades of older symbol files, by the version that wrote them.

Versions are numbers: 10901 is 1.9.1, 900 is 0.9.0; a file without one counts as 0.8.0.
"""

from __future__ import annotations

from mx_symbol.graph import Entry, Node
from mx_symbol.symbol.attribute import split_input_key
from mx_symbol.symbol.compose import initial_attributes, missing_variable

OLDEST = 800


def fill_inputs(node: Node, version: int) -> None:
    """Before 0.9.0 files left out unnamed variables, such as auxiliary states.

    Those of the time until 1.0.0 that leave them out get them, too. MXNet loads such files as they
    are and refuses to infer shapes.
    """
    if version >= 10000:
        return
    for argument in node.input_names[len(node.inputs) :]:
        node.inputs.append(Entry(missing_variable(node, argument)))


def input_attributes(node: Node, version: int) -> None:
    """Moves `weight_lr_mult` from a node to its weight; before 0.9.4 adds how states start."""
    names = node.input_names
    for key in list(node.attrs):
        target = split_input_key(key)
        if target is None or key.startswith("__"):
            continue
        value = node.attrs.pop(key)
        if target[0] in names:
            variable = node.inputs[names.index(target[0])].node
            if variable.is_variable:
                variable.attrs.setdefault(target[1], value)
    if version < 904:
        for argument, entry in zip(names, node.inputs, strict=True):
            if entry.node.is_variable:
                for key, value in initial_attributes(node, argument).items():
                    entry.node.attrs.setdefault(key, value)


def upgraded_attributes(op: str, attrs: dict[str, str], version: int) -> dict[str, str]:
    """Parameters whose meaning has changed: before 0.9.5 `axis=-1` of argmax meant all axes."""
    if version < 905 and op in ("argmax", "argmin") and attrs.get("axis") == "-1":
        return {key: value for key, value in attrs.items() if key != "axis"}
    return attrs
