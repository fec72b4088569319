# SPDX-License-Identifier: Apache-2.0
"""Signature and docstring of the function that is generated for an operator."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mx_core.operator.declaration import Operator


def signature_of(op: Operator[Any]) -> inspect.Signature:
    """Inputs, then parameters, then `out`, `name` and further keyword arguments."""
    kinds = inspect.Parameter
    parameters = []
    after: Any = kinds.POSITIONAL_OR_KEYWORD
    if op.variadic is not None:
        parameters.append(kinds("data", kinds.VAR_POSITIONAL))
        after = kinds.KEYWORD_ONLY
    else:
        names = [*op.arguments, *op.auxiliaries]
        parameters += [kinds(n, kinds.POSITIONAL_OR_KEYWORD, default=None) for n in names]
    taken = {parameter.name for parameter in parameters}
    for info in op.Param.fields():
        if info.name not in taken:
            default = None if info.required else info.default
            parameters.append(kinds(info.name, after, default=default))
    for name in ("out", "name"):
        if name not in taken | {f.name for f in op.Param.fields()}:
            parameters.append(kinds(name, after, default=None))
    parameters.append(kinds("kwargs", kinds.VAR_KEYWORD))
    return inspect.Signature(parameters)


def docstring_of(op: Operator[Any]) -> str:
    """The class's docstring, with NumPy's sections of parameters and results."""
    lines = [inspect.getdoc(type(op)) or f"The operator {op.name}.", "", "Parameters", "----------"]
    if op.variadic is not None:
        lines += ["*data : arrays", "    The inputs."]
    else:
        lines += [f"{name} : array" for name in (*op.arguments, *op.auxiliaries)]
    for info in op.Param.fields():
        tail = "required" if info.required else f"default {info.default!r}"
        lines += [f"{info.name} : {info.type_name}, {tail}", f"    {info.doc}"]
    lines += ["out : array or list of arrays, optional", "    Where to put the result."]
    lines += ["", "Returns", "-------", ", ".join(op.results)]
    if op.aliases:
        lines += ["", "Also known as " + ", ".join(op.aliases) + "."]
    return "\n".join(lines)
