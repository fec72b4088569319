# SPDX-License-Identifier: Apache-2.0
"""The operator that elementwise operators become when they are fused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from mx_core.expression import Expression
from mx_core.operator import Params
from mx_core.operator.simple import Elementwise


class FusedParams(Params):
    """An expression, the run-time scalars of what was fused, and the types of the outputs."""

    op_name = "_fused"
    expression: Expression
    types: tuple[int, ...]
    operators: tuple[str, ...]

    def __init__(
        self,
        expression: Expression,
        scalars: Sequence[float],
        types: Sequence[int],
        operators: Sequence[str],
    ) -> None:
        self._hold(
            expression=expression, types=tuple(types), operators=tuple(operators),
            key=(expression, tuple(types)), scalars=tuple(scalars),
        )  # fmt: skip

    def with_scalars(self, scalars: Sequence[float]) -> Self:
        """The same with other run-time values."""
        return type(self)(self.expression, scalars, self.types, self.operators)

    def attrs(self) -> dict[str, str]:
        """What is shown: the operators that were fused, in the order in which they are computed."""
        return {"operators": " ".join(self.operators)}

    def attrs_all(self) -> dict[str, str]:
        """The same."""
        return self.attrs()

    def __repr__(self) -> str:
        return f"FusedParams({' '.join(self.operators)})"


class Fused(Elementwise[FusedParams]):
    """Several elementwise operators in one pass over memory."""

    name = "_fused"
    broadcast = True
    differentiable = False  # graphs are fused when their gradients are in them
    custom_gradient = True

    def inputs(self, p: FusedParams) -> tuple[str, ...]:
        """Numbered."""
        return tuple(f"x{i}" for i in range(p.expression.n_inputs))

    def outputs(self, p: FusedParams) -> tuple[str, ...]:
        """Numbered."""
        n = len(p.expression.outputs)
        return ("output",) if n == 1 else tuple(f"output{i}" for i in range(n))

    def num_visible_outputs(self, p: FusedParams) -> int:
        """All."""
        return len(p.expression.outputs)

    def expression(self, p: FusedParams) -> Expression:
        """The expressions, one after the other."""
        return p.expression

    def infer_type(self, p: FusedParams, t: Any) -> None:
        """Outputs have the types that the operators gave them."""
        for name, code in zip(self.outputs(p), p.types, strict=True):
            t.assign(name, code)


FUSED = Fused()
