# SPDX-License-Identifier: Apache-2.0
"""Kernels made of several plans, with temporary tensors between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mx_core import expression as X
from mx_core.expression import Expression
from mx_core.kernels import KernelCall
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import Tensor, tensors

#: a number, or (as `Runtime`) the position of a run-time scalar of the operator
Scalar = float | tuple[str, int]


def runtime(index: int) -> Scalar:
    """A run-time scalar of the operator."""
    return ("runtime", index)


@cache
def traced(function: Callable[..., Any], n_inputs: int, n_scalars: int = 0) -> Expression:
    """The expression of a function of arrays, then scalars."""
    return X.trace(function, n_inputs, n_scalars)


def same(x: Any) -> Any:
    """x, for casts and copies."""
    return x


class Composite:
    """Collects parts. Tensors are numbers: `input(i)`, `output(i)`, and what `temporary` returns."""

    def __init__(self, call: KernelCall) -> None:
        self._call = call
        self._tensors: list[Tensor] = [*tensors(call.inputs), *tensors(call.outputs)]
        self._fixed = len(self._tensors)
        self._parts: list[tuple[Any, list[int], list[int], list[tuple[float, int | None]], bool]] = []
        self._blank: list[int] = []

    def input(self, index: int) -> int:
        """An input of the operator."""
        return index

    def output(self, index: int) -> int:
        """An output of the operator; parts do not read it."""
        return len(self._call.inputs) + index

    def temporary(self, shape: Sequence[int], dtype: int) -> int:
        """A tensor that lives while the composite runs."""
        self._tensors.append((tuple(shape), dtype))
        return len(self._tensors) - 1

    def blank(self, shape: Sequence[int], dtype: int) -> int:
        """A tensor for parts that do not read what it holds."""
        self._blank.append(self.temporary(shape, dtype))
        return self._blank[-1]

    def shape_of(self, tensor: int) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self._tensors[tensor][0]

    def run(
        self,
        plan: Any,
        inputs: Sequence[int],
        outputs: Sequence[int],
        scalars: Sequence[Scalar] = (),
        mutates: bool = False,
    ) -> None:
        """Appends a plan."""
        given: list[tuple[float, int | None]] = [
            (0.0, s[1]) if isinstance(s, tuple) else (float(s), None) for s in scalars
        ]
        self._parts.append((plan, list(inputs), list(outputs), given, mutates))

    def evaluate(
        self,
        expression: Expression,
        inputs: Sequence[int],
        outputs: Sequence[int],
        scalars: Sequence[Scalar] = (),
        *,
        shapes: Sequence[Sequence[int] | None] = (),
        mutated: Sequence[int] = (),
        wide_scalars: bool = True,
    ) -> None:
        """Appends an expression; `shapes` are views of the inputs that broadcast, None as they are.

        Further results of the expression are written to the inputs `mutated` (positions in `inputs`).
        What depends on scalars alone is computed in double unless `wide_scalars` is false.
        """
        views = [*shapes, *(None for _ in range(len(inputs) - len(shapes)))]
        given = [
            (self._tensors[i][0] if view is None else tuple(view), self._tensors[i][1])
            for i, view in zip(inputs, views, strict=True)
        ]
        made = [self._tensors[o] for o in outputs]
        plan = native.expression_plan(
            expression.serialized, given, made, mutated=list(mutated), wide_scalars=wide_scalars
        )
        self.run(plan, inputs, outputs, scalars, mutates=len(mutated) > 0)

    def reduce(
        self, source: int, target: int, op: str, view: Sequence[int], reduced: Sequence[bool], **more: bool
    ) -> None:
        """Appends a reduction over the marked axes of a view of `source`."""
        given = [(tuple(view), self._tensors[source][1])]
        plan = native.reduce_plan(given, [self._tensors[target]], op, list(reduced), **more)
        self.run(plan, [source], [target])

    def plan(self) -> Any:
        """The composite."""
        n = len(self._call.inputs)
        return native.composite_plan(
            self._tensors[:n], self._tensors[n : self._fixed], self._tensors[self._fixed :], self._parts,
            len(self._call.params.scalars), self._blank,
        )  # fmt: skip
