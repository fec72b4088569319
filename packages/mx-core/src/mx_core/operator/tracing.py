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
    from mx_core.operator.simple import Elementwise

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


def expression_of(op: Elementwise[Any], p: Params) -> Expression | None:
    """The expression of an elementwise operator, None where it has none with these parameters.

    Raises
    ------
    OperatorError
        `expression` raises, or gives something else than an expression of its inputs, run-time parameters and
        outputs; the message names operator, plug-in and line.
    MXNetError
        What it raises on purpose, such as a refusal of its parameters.
    """
    try:
        made: object = op.expression(p)
    except MXNetError:
        raise
    except (Exception, SystemExit) as error:
        let_pass(error)
        line, _ = last_line(error)
        raise OperatorError(f"{_named(op, op.expression, line, 'fails')}: {_told(error)}") from error
    if made is None:
        return None
    if not isinstance(made, Expression):
        raise OperatorError(
            f"{_named(op, op.expression, fault='is wrong')}: it gives a {type(made).__name__}, expected an Expression "
            "or None; mx_core.expression.trace makes one"
        )
    found = (made.n_inputs, made.n_scalars, len(made.outputs))
    wanted = (len(op.inputs(p)), len(p.scalars), len(op.outputs(p)))
    if found != wanted:
        raise OperatorError(
            f"{_named(op, op.expression, fault='is wrong')}: it is of {_counts(found)}; the operator has "
            f"{_counts(wanted)}"
        )
    return made


def _counts(counts: tuple[int, int, int]) -> str:
    return "{} inputs, {} run-time parameters and {} outputs".format(*counts)


class _TracedParams:
    """Parameters of which the run-time ones are traced scalars."""

    def __init__(self, p: Params, builder: Builder) -> None:
        runtime = [f.name for f in p.fields() if f.runtime]
        for info in p.fields():
            value = getattr(p, info.name)
            traced = builder.scalar(runtime.index(info.name)) if info.runtime else value
            setattr(self, info.name, traced)


def _named(
    op: Operator[Any], function: Callable[..., Any], line: str = "", fault: str = "cannot be traced"
) -> str:
    """Operator, plug-in, function, what is wrong with it, and its line."""
    by = f" of {op.brought_by.source}" if op.brought_by is not None else ""
    name = getattr(function, "__name__", "function")
    where = line or first_line(function)
    return f"[{op.name}]{by} {type(op).__qualname__}.{name} {fault}" + (f", {where}" if where else "")


def _told(error: BaseException) -> str:
    text = str(error).removeprefix("[expression] ")
    return text if isinstance(error, MXNetError) else f"{type(error).__name__}: {text}"
