# SPDX-License-Identifier: Apache-2.0
"""Making nodes: applying an operator to symbols, and substituting variables in a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError, MXNetError
from mx_symbol.graph import Entry, Node, rewrite, topological_order
from mx_symbol.symbol.attribute import AttrScope, canonical_key, is_dunder, refuse_private, split_input_key
from mx_symbol.symbol.naming import NameManager

if TYPE_CHECKING:
    from mx_core.operator import Operator


def apply(
    op: Operator,
    called: str,
    inputs: Sequence[Entry | None],
    named: Mapping[str, Entry],
    values: Mapping[str, Any],
    name: str | None = None,
    attr: Mapping[str, str] | None = None,
) -> Node:
    """A node that applies `op`; inputs that are missing become variables.

    Parameters
    ----------
    called : str
        The name the operator was called by: lower-cased it is the hint for an automatic name.
    inputs : sequence of Entry or None
        Inputs by position, auxiliary states last; None is a missing one.
    named : mapping of str to Entry
        Inputs by name.
    values : mapping
        Parameters, and attributes such as `lr_mult`.

    Raises
    ------
    ArgumentError  a parameter or an input that the operator does not have, or one given twice
    """
    name = NameManager.current.get(name, called.lower())
    declared = {info.name for info in op.Param.fields()}
    texts = {k: str(v) for k, v in values.items() if k not in declared and _is_attribute(k)}
    values = {k: v for k, v in values.items() if k not in texts and (v is not None or k in declared)}
    if op.variadic is not None and op.variadic not in values:
        values = {**values, op.variadic: len(inputs) + len(named)}
    params = op.Param.parse(_without_missing(op, values), op=op.name, node=name)
    node = Node(op, params, name)
    node.set_texts({k: str(v) for k, v in values.items() if _is_plain(v, getattr(params, k, v))})
    for_inputs: dict[str, dict[str, str]] = {}
    for key, value in {**AttrScope.current.get(attr), **texts}.items():
        _place_attribute(node, key, value, for_inputs)
    node.inputs = _inputs(node, inputs, named, for_inputs)
    return node


def _is_plain(value: object, taken: object) -> bool:
    """True for what Python writes as MXNet's files have it: numbers, texts, None, and rows of those.

    A truth value is, unless it was taken for a number.
    """
    if isinstance(value, (tuple, list)):
        return all(type(item) in (int, float, type(None)) for item in value)
    if type(value) is bool:
        return type(taken) is bool
    return type(value) in (int, float, str, type(None))


def _is_attribute(key: str) -> bool:
    return is_dunder(canonical_key(key)) or split_input_key(key) is not None


def _without_missing(op: Operator, values: Mapping[str, Any]) -> dict[str, Any]:
    """None for a parameter that cannot be None means: not given."""
    optional = {f.name for f in op.Param.fields() if f.takes_none}
    return {k: v for k, v in values.items() if v is not None or k in optional}


def _place_attribute(node: Node, key: str, value: str, for_inputs: dict[str, dict[str, str]]) -> None:
    full = canonical_key(key)
    refuse_private(f"{node.op.name if node.op else ''} {node.name!r}", (full,))
    if is_dunder(full):
        if full == key or full not in node.attrs:
            node.attrs[full] = value
        return
    target = split_input_key(key)
    if target is None or target[0] not in node.input_names:
        raise ArgumentError(
            f"[{node.op.name if node.op else ''} {node.name!r}] cannot find argument {key!r}; "
            "attributes of your own have names such as __key__"
        )
    for_inputs.setdefault(target[0], {})[target[1]] = value


def _inputs(
    node: Node,
    given: Sequence[Entry | None],
    named: Mapping[str, Entry],
    for_inputs: Mapping[str, Mapping[str, str]],
) -> list[Entry]:
    assert node.op is not None
    names = node.input_names
    where = f"[{node.op.name} {node.name!r}]"
    while len(given) > len(names) and given[-1] is None:
        given = given[:-1]
    if len(given) > len(names):
        raise ArgumentError(f"{where} expected at most {len(names)} inputs, got {len(given)}")
    for key in named:
        if key not in names:
            listed = ", ".join(names) or "none"
            raise ArgumentError(f"{where} no input is named {key!r}; inputs: {listed}")
        if names.index(key) < len(given) and given[names.index(key)] is not None:
            raise ArgumentError(f"{where} input {key!r} is given by position and by name")
    result = []
    for i, argument in enumerate(names):
        entry = named.get(argument, given[i] if i < len(given) else None)
        if entry is None:
            entry = Entry(missing_variable(node, argument, for_inputs.get(argument)))
        elif entry.node.is_variable:
            for key, value in initial_attributes(node, argument).items():
                entry.node.attrs.setdefault(key, value)
            entry.node.attrs.update(for_inputs.get(argument, {}))
        result.append(entry)
    return result


def missing_variable(node: Node, argument: str, extra: Mapping[str, str] | None = None) -> Node:
    """The variable for an input that was not given: `conv0_weight`.

    As in MXNet it inherits the texts of its user, and what the operator says about how it starts.
    """
    attrs = node.attributes() | initial_attributes(node, argument) | dict(extra or {})
    return Node(None, None, f"{node.name}_{argument}", attrs)


def alone(node: Node) -> Node:
    """The same application of an operator with variables as inputs.

    Raises
    ------
    MXNetError  it is a variable
    """
    if node.is_variable:
        raise MXNetError(f"[{node.name}] expected the result of an operator, got a variable")
    made = node.copy([])
    made.inputs = [Entry(missing_variable(made, argument)) for argument in made.input_names]
    return made


def initial_attributes(node: Node, argument: str) -> dict[str, str]:
    """Attributes the operator declares for the variable of an input (`__init__`)."""
    return {} if node.op is None else dict(node.op.input_attrs.get(argument, {}))


def substitute(
    heads: Sequence[Entry], given: Sequence[Entry], named: Mapping[str, Entry], name: str | None
) -> tuple[Entry, ...]:
    """The graph with variables replaced, by the order of arguments or by name.

    Raises
    ------
    MXNetError  the graph is a lone variable
    ArgumentError  by position and by name at once; a name that is no variable of the graph
    """
    if len(heads) == 1 and heads[0].node.is_variable:
        raise MXNetError(f"[compose] variable {heads[0].node.name!r} cannot be composed")
    if given and named:
        raise ArgumentError("[compose] give the inputs by position or by name, not both")
    order = topological_order(entry.node for entry in heads)
    variables = [node for node in order if node.is_variable]
    if len(given) > len(variables):
        raise ArgumentError(f"[compose] expected at most {len(variables)} inputs, got {len(given)}")
    known = {node.name for node in variables}
    for key in named:
        if key not in known:
            raise ArgumentError(f"[compose] no variable is named {key!r}: {', '.join(sorted(known))}")
    table = dict(zip(variables, given, strict=False))
    table |= {node: named[node.name] for node in variables if node.name in named}
    result = rewrite(heads, lambda node, _: (table[node],) if node in table else None)
    if name and len(heads) == 1 and result[0].node is not heads[0].node:
        result[0].node.name = name
    return result
