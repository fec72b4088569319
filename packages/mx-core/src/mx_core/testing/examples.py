# SPDX-License-Identifier: Apache-2.0
"""Made-up applications of an operator about which nothing but its declaration is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mx_core import operators
from mx_core.operator.declaration import Operator
from mx_core.operator.gradient import gradient_of
from mx_core.testing.case import Case, Input, make_case
from mx_core.testing.operator import entry_values

#: shapes that the first input is tried with
_SHAPES: tuple[tuple[int, ...], ...] = ((4, 6), (2, 3, 5), (2, 3, 5, 5), (5,), (2, 3, 4, 4, 4))
#: intervals on which functions tend to be defined and smooth
_DOMAINS = ((0.2, 0.8), (1.2, 1.8), (-0.8, -0.2))
_REQUIRED: dict[str, tuple[Any, ...]] = {
    "tuple": ((2,), (2, 2), (1,)), "bool": (False,), "float": (0.5,), "int": (2, 1),
}  # fmt: skip


def example(op: Operator[Any]) -> Case | None:
    """An application whose reference runs and gives finite values; None when none was found.

    That of a backward operator is taken from the gradient of its forward operator's.
    """
    if op.backward_of is not None:
        return _of_gradient(op)
    for params in _params(op):
        for inputs in _inputs(op, params):
            for low, high in _DOMAINS:
                case = _tried(op, params, inputs, low, high)
                if case is not None:
                    return case
    return None


def _tried(
    op: Operator[Any], params: dict[str, Any], inputs: list[Input], low: float, high: float
) -> Case | None:
    try:
        case = make_case(op, params, inputs, low=low, high=high)
        results = case.reference()
    except Exception:  # a shape or parameter that the operator refuses: the next one is tried
        return None
    return case if all(np.isfinite(x).all() for x in results) else None


def _params(op: Operator[Any]) -> Iterator[dict[str, Any]]:
    required = [info for info in op.Param.fields() if info.required]
    if not required:
        yield {}
        return
    choices = [_values(info) for info in required]
    for number in range(max(map(len, choices), default=0)):
        if all(choices):
            yield {
                info.name: values[min(number, len(values) - 1)]
                for info, values in zip(required, choices, strict=True)
            }


def _values(info: Any) -> tuple[Any, ...]:
    if info.choices:
        return tuple(info.choices)
    text = getattr(info.annotation, "__name__", "") + str(info.annotation)
    return next((values for kind, values in _REQUIRED.items() if kind in text.lower()), ())


def _inputs(op: Operator[Any], params: dict[str, Any]) -> Iterator[list[Input]]:
    try:
        p = op.Param.parse(params, op=op.name)
        count = len(op.inputs(p)) + len(op.aux(p))
    except Exception:  # parameters that contradict each other
        return
    for shape in _SHAPES:
        yield [shape, *[None] * (count - 1)] if count else []
        yield [shape] * count


def _of_gradient(op: Operator[Any]) -> Case | None:
    forward = op.backward_of
    case = example(forward) if forward is not None else None
    if case is None:
        return None
    try:
        results = case.reference()
        heads = [np.ones(x.shape) * 0.7 for x in results[: len(case.outputs)]]
        gradient = gradient_of(case.op, case.params)
        for node, values in entry_values(case, gradient, results, heads):
            if operators.get(node.op) is op:
                return make_case(op, node.params.attrs_all(), values)
    except Exception:  # what is wrong with the gradient, the forward operator's check says
        return None
    return None
