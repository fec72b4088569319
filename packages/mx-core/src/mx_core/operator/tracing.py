# SPDX-License-Identifier: Apache-2.0
"""Calling the functions of elementwise operators with traced values; what goes wrong is said of their lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mx_core.errors import MXNetError, OperatorError
from mx_core.expression.ir import Expression
from mx_core.expression.trace import Builder
from mx_core.raised import first_line, last_line
from mx_core.signals import let_pass

if TYPE_CHECKING:
    from mx_core.operator.declaration import Operator
    from mx_core.operator.params import Params

#: whose functions refuse what is done with a traced value
_EXPRESSION = str(Path(__file__).parents[1] / "expression")


def traced(
    op: Operator[Any],
    p: Params,
    function: Callable[..., Any],
    arguments: Sequence[str],
    results: Sequence[str],
) -> Expression:
    """The expression that a function of an operator writes down.

    Parameters
    ----------
    function : callable
        Bound; gets the parameters, of which the run-time ones are traced, and a traced value per argument.
    arguments, results : sequences of str
        Names of what it takes and gives.

    Raises
    ------
    OperatorError  it raises, or gives something else than a value per result; the message names its line
    MXNetError  what it raises on purpose, such as a refusal of its parameters
    """
    builder = Builder(len(arguments), len(p.scalars))
    inputs = [builder.input(i) for i in range(len(arguments))]
    try:
        made = function(_TracedParams(p, builder), *inputs)
    except (Exception, SystemExit) as error:
        let_pass(error)
        line, called = last_line(error)
        if isinstance(error, MXNetError) and not (called or "").startswith(_EXPRESSION):
            raise
        raise OperatorError(f"{_named(op, function, line)}: {_told(error)}") from error
    values = made if isinstance(made, (tuple, list)) else (made,)
    if len(values) != len(results):
        raise OperatorError(
            f"{_named(op, function)}: it gives {len(values)} values, expected "
            f"{len(results)} ({', '.join(results)})"
        )
    try:
        return builder.finish(values)
    except MXNetError as error:
        raise OperatorError(f"{_named(op, function)}: {_told(error)}") from error


class _TracedParams:
    """Parameters of which the run-time ones are traced scalars."""

    def __init__(self, p: Params, builder: Builder) -> None:
        runtime = [f.name for f in p.fields() if f.runtime]
        for info in p.fields():
            value = getattr(p, info.name)
            traced = builder.scalar(runtime.index(info.name)) if info.runtime else value
            setattr(self, info.name, traced)


def _named(op: Operator[Any], function: Callable[..., Any], line: str = "") -> str:
    """Operator, plug-in, function and line."""
    by = f" of {op.brought_by.source}" if op.brought_by is not None else ""
    name = getattr(function, "__name__", "function")
    where = line or first_line(function)
    return f"[{op.name}]{by} {type(op).__qualname__}.{name} cannot be traced" + (
        f", {where}" if where else ""
    )


def _told(error: BaseException) -> str:
    text = str(error).removeprefix("[expression] ")
    return text if isinstance(error, MXNetError) else f"{type(error).__name__}: {text}"
