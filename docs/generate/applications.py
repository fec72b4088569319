# SPDX-License-Identifier: Apache-2.0
"""Parameters and arrays an operator is known to take: those of its example and of recorded cases."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import mx
from generate.examples import Recorded
from generate.naming import functions
from mx_core.errors import MXNetError
from mx_core.operator import Operator, Params, infer_shapes

Shape = tuple[int, ...]


class Application(NamedTuple):
    """One use of an operator: parameters, and the shapes that its rule infers."""

    params: Params
    inputs: Mapping[str, Shape | None]
    outputs: Mapping[str, Shape | None]

    def settings(self, op: Operator) -> str:
        """The parameters that were given, as in a call; the one that counts inputs is left out."""
        given = {i.name for i in op.Param.fields() if i.name in self.params.attrs() and i.name != op.variadic}
        return ", ".join(f"{name}={getattr(self.params, name)!r}" for name in sorted(given))


def applications(op: Operator, shown: Sequence[str], recorded: Sequence[Recorded]) -> list[Application]:
    """Those of the example's lines first; each kind of ranks and parameters once."""
    found: dict[object, Application] = {}
    for attrs, arrays in (*calls(op, shown), *recorded):
        made = application(op, attrs, [np.shape(x) for x in arrays])
        if made is not None:
            ranks = tuple(len(s) for s in made.inputs.values() if s is not None)
            found.setdefault((ranks, tuple(sorted(made.params.attrs()))), made)
    return list(found.values())


def application(op: Operator, attrs: Mapping[str, Any], shapes: Sequence[Shape | None]) -> Application | None:
    """What the rule of shapes makes of parameters and shapes of the first inputs; None if it refuses."""
    attrs = dict(attrs)
    if op.variadic is not None:
        attrs.setdefault(op.variadic, len(shapes))
    try:
        p = op.Param.parse(attrs, op=op.name)
        names = [*op.inputs(p), *op.aux(p)]
        given = [*shapes, *[None] * (len(names) - len(shapes))]
        inputs, outputs = infer_shapes(op, p, given)
    except MXNetError:
        return None
    visible = op.outputs(p)[: op.num_visible_outputs(p)]
    return Application(p, dict(zip(names, inputs, strict=True)), dict(zip(visible, outputs, strict=False)))


def calls(op: Operator, shown: Sequence[str]) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Parameters and arrays of the calls of an operator in lines of a session with the interpreter."""
    code = "\n".join(line[4:] for line in shown if line[:4] in (">>> ", "... "))
    paths = functions(op)
    names: dict[str, Any] = {"mx": mx, "np": np}
    with np.errstate(all="ignore"):
        for statement in ast.parse(code).body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in paths:
                    yield _arguments(op, node, names)
            exec(compile(ast.Module([statement], []), "example", "exec"), names)


def _arguments(op: Operator, node: ast.Call, names: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    def value(expression: ast.expr) -> Any:
        return eval(compile(ast.Expression(expression), "example", "eval"), names)

    given = {k.arg: value(k.value) for k in node.keywords if k.arg is not None}
    positional = [value(argument) for argument in node.args]
    fields = [i.name for i in op.Param.fields()]
    inputs = [] if op.variadic is not None else [*op.arguments, *op.auxiliaries]
    if op.variadic is None:
        given = dict(zip([*inputs, *fields], positional, strict=False)) | given
        positional = [given[name] for name in inputs if given.get(name) is not None]
    return {k: v for k, v in given.items() if k in fields and k not in inputs}, positional
