# SPDX-License-Identifier: Apache-2.0
"""Mutual inference of shapes and element types, run to a fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.errors import DTypeError, MXNetError, OutOfMemoryError, ShapeError
from mx_core.operator.backward import infer_through_forward
from mx_core.operator.knowledge import PartialShape, Shapes, State, Types
from mx_core.operator.watchdog import watched
from mx_core.signals import let_pass

if TYPE_CHECKING:
    from mx_core.operator.declaration import Operator
    from mx_core.operator.params import Params


def _names(op: Operator[Any], p: Params, n_given: int, where: str) -> tuple[list[str], list[str]]:
    inputs = [*op.inputs(p), *op.aux(p)]
    if n_given != len(inputs):
        raise ShapeError(f"{where} expected {len(inputs)} inputs ({', '.join(inputs)}), got {n_given}")
    return inputs, list(op.outputs(p))


def _where(op: Operator[Any], node: str | None) -> str:
    return f"[{op.name}]" if node is None else f"[{op.name} {node!r}]"


def _run_to_fixed_point(op: Operator[Any], p: Params, state: State) -> None:
    """Runs a rule until nothing changes; a third-party operator's rule is watched for endless loops."""
    if op.brought_by is None:
        _repeat(op, p, state)
        return
    with watched(op.brought_by, state.rule):
        _repeat(op, p, state)


def _repeat(op: Operator[Any], p: Params, state: State) -> None:
    state.changed = True
    while state.changed:
        state.changed = False
        state.run(op, p)
        if op.backward_of is not None:
            infer_through_forward(op, p, state)


def _unforeseen(where: str, kind: type[MXNetError], error: Exception, inputs: Sequence[object]) -> MXNetError:
    """An unexpected exception of a rule, as an error that names the operator and its inputs."""
    if isinstance(error, MemoryError):
        return OutOfMemoryError(f"{where} out of memory while inferring from {_shown(inputs)}")
    return kind(f"{where} cannot take inputs {_shown(inputs)}: {type(error).__name__}: {error}")


def infer_shapes(
    op: Operator[Any],
    p: Params,
    inputs: Sequence[PartialShape | None],
    outputs: Sequence[PartialShape | None] | None = None,
    node: str | None = None,
) -> tuple[tuple[PartialShape | None, ...], tuple[PartialShape | None, ...]]:
    """Shapes of inputs (auxiliary states last) and outputs, as far as the rule can tell.

    Raises
    ------
    ShapeError  contradiction, or a wrong number of inputs; names operator, argument, both shapes
    """
    where = _where(op, node)
    try:
        input_names, output_names = _names(op, p, len(inputs), where)
        given = outputs if outputs is not None else [None] * len(output_names)
        state = Shapes(where, input_names + output_names, [*inputs, *given])
        _run_to_fixed_point(op, p, state)
        return state.values(input_names), state.values(output_names)
    except MXNetError:
        raise
    except Exception as error:
        let_pass(error)
        raise _unforeseen(where, ShapeError, error, inputs) from error


def infer_types(
    op: Operator[Any],
    p: Params,
    inputs: Sequence[int | None],
    outputs: Sequence[int | None] | None = None,
    node: str | None = None,
) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    """Type codes of inputs (auxiliary states last) and outputs, as far as the rule can tell.

    Raises
    ------
    DTypeError  contradiction; names operator, argument, both types
    """
    where = _where(op, node)
    try:
        input_names, output_names = _names(op, p, len(inputs), where)
        given = outputs if outputs is not None else [None] * len(output_names)
        state = Types(where, input_names + output_names, [*inputs, *given])
        _run_to_fixed_point(op, p, state)
        state.refuse_integers(op)
        return state.values(input_names), state.values(output_names)
    except MXNetError:
        raise
    except Exception as error:
        let_pass(error)
        given_types = [None if code is None else dtypes.name(code) for code in inputs]
        raise _unforeseen(where, DTypeError, error, given_types) from error


def _shown(values: Sequence[object]) -> str:
    return "(" + ", ".join("unknown" if value is None else str(value) for value in values) + ")"
