# SPDX-License-Identifier: Apache-2.0
"""Mutual inference of shapes and element types, run to a fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mx_core import dtypes
from mx_core.errors import DTypeError, MXNetError, OutOfMemoryError, ShapeError
from mx_core.operator.backward import infer_through_forward
from mx_core.operator.knowledge import PartialShape, Shapes, State, Types, keeps_shape
from mx_core.operator.watchdog import watched
from mx_core.signals import let_pass

if TYPE_CHECKING:
    from mx_core.operator.declaration import Operator
    from mx_core.operator.params import Params


class Tensors(NamedTuple):
    """What a rule works on: the names of an operator's tensors with its parameters, and what messages begin with."""

    where: str
    #: auxiliary states last
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    #: of both
    names: tuple[str, ...]
    #: inputs of one shape have outputs of that shape, too: the rule is one of those that every operator may have
    alike: bool


def _where(op: Operator[Any], node: str | None) -> str:
    return f"[{op.name}]" if node is None else f"[{op.name} {node!r}]"


def tensors_of(op: Operator[Any], p: Params, n_given: int, node: str | None = None) -> Tensors:
    """The tensors of an operator that gets so many inputs.

    Raises
    ------
    ShapeError  it has another number of them
    """
    where = _where(op, node)
    inputs = (*op.inputs(p), *op.aux(p))
    if n_given != len(inputs):
        raise ShapeError(f"{where} expected {len(inputs)} inputs ({', '.join(inputs)}), got {n_given}")
    alike = keeps_shape(op.infer_shape) and op.backward_of is None and len(inputs) > 0
    outputs = tuple(op.outputs(p))
    return Tensors(where, inputs, outputs, inputs + outputs, alike)


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


def _unforeseen(
    op: Operator[Any], node: str | None, kind: type[MXNetError], error: Exception, inputs: Sequence[object]
) -> MXNetError:
    """An unexpected exception of a rule, as an error that names the operator and its inputs."""
    where = _where(op, node)
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
    try:
        where, input_names, output_names, names, _ = tensors_of(op, p, len(inputs), node)
        given = outputs if outputs is not None else [None] * len(output_names)
        state = Shapes(where, names, [*inputs, *given])
        _run_to_fixed_point(op, p, state)
        return state.values(input_names), state.values(output_names)
    except MXNetError:
        raise
    except Exception as error:
        let_pass(error)
        raise _unforeseen(op, node, ShapeError, error, inputs) from error


def infer_outputs(
    op: Operator[Any], p: Params, tensors: Tensors, inputs: Sequence[PartialShape]
) -> tuple[PartialShape | None, ...]:
    """Shapes of the outputs of arrays, whose shapes are complete: what `infer_shapes` says, in less time.

    A rule is run again only if it says something new; if all is known, it has nothing left to say. What a stranger's
    rule, or that of a backward operator, refuses when it sees its own results is still refused.

    Raises
    ------
    ShapeError  contradiction; names operator, argument, both shapes
    """
    if tensors.alike and (len(inputs) == 1 or inputs.count(inputs[0]) == len(inputs)):
        return (inputs[0],) * len(tensors.outputs)
    try:
        given: list[PartialShape | None] = [*inputs, *([None] * len(tensors.outputs))]
        state = Shapes(tensors.where, tensors.names, given)
        if op.brought_by is not None or op.backward_of is not None:
            _run_to_fixed_point(op, p, state)
            return state.values(tensors.outputs)
        op.infer_shape(p, state)
        found = state.complete(tensors.outputs)
        if found is not None:
            return found
        _repeat(op, p, state)
        return state.values(tensors.outputs)
    except MXNetError:
        raise
    except Exception as error:
        let_pass(error)
        raise _unforeseen(op, None, ShapeError, error, inputs) from error


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
    try:
        where, input_names, output_names, names, _ = tensors_of(op, p, len(inputs), node)
        given = outputs if outputs is not None else [None] * len(output_names)
        state = Types(where, names, [*inputs, *given])
        _run_to_fixed_point(op, p, state)
        state.refuse_integers(op)
        return state.values(input_names), state.values(output_names)
    except MXNetError:
        raise
    except Exception as error:
        let_pass(error)
        given_types = [None if code is None else dtypes.name(code) for code in inputs]
        raise _unforeseen(op, node, DTypeError, error, given_types) from error


def _shown(values: Sequence[object]) -> str:
    return "(" + ", ".join("unknown" if value is None else str(value) for value in values) + ")"
