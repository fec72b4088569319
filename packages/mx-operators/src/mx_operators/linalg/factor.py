# SPDX-License-Identifier: Apache-2.0
"""Factorisations: linalg potrf, sumlogdiag.

Source of the gradient: Murray, Differentiation of the Cholesky decomposition, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide


def square(s: Any, name: str = "A") -> tuple[int, ...] | None:
    """The shape of a stack of square matrices, checked."""
    a = s.get(name)
    if a is not None and (len(a) < 2 or (a[-1] != a[-2] and -1 not in a[-2:])):
        raise s.error(f"{name}: expected square matrices, got {a}")
    return a  # type: ignore[no-any-return]


@param
class CholeskyParam:
    """Which triangle."""

    lower: bool = opt(True, "the factor is a lower triangle; else an upper one")


def turned(x: Any, p: Any) -> Any:
    """Upper triangles as lower ones, and back."""
    return x if p.lower else x.swapaxes(-1, -2)


class Potrf(OperatorProperty):
    """Cholesky factor of a symmetric positive definite A: lower L with A = L·Lᵀ, or upper U with A = Uᵀ·U."""

    name = "_linalg_potrf"
    aliases = ("linalg_potrf",)
    Param = CholeskyParam
    arguments = ("A",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As A."""
        square(s)
        s.unify(["A", "output"])

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs the factor."""
        return g.op("_backward_linalg_potrf", (g.out_grad(), g.output(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardPotrf(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """LAPACK through NumPy; reads the triangle of the factor."""
        a = turned(wide(inputs[0]), p)
        try:
            return (turned(np.linalg.cholesky(a), p).astype(inputs[0].dtype, copy=False),)
        except np.linalg.LinAlgError as error:
            raise ArgumentError(f"[_linalg_potrf] A of shape {a.shape}: {error}") from None


class BackwardPotrf(OperatorProperty):
    """Gradient of potrf."""

    name = "_backward_linalg_potrf"
    Param = CholeskyParam
    arguments = ("out_grad", "factor")
    results = ("A_grad",)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """½ L⁻ᵀ (Φ(LᵀG) + Φ(LᵀG)ᵀ) L⁻¹, Φ the lower triangle with half the diagonal; symmetric."""
        g, factor = (turned(wide(x), p) for x in inputs)
        low = np.tril(factor.swapaxes(-1, -2) @ np.tril(g))
        n = low.shape[-1]
        low[..., np.arange(n), np.arange(n)] *= 0.5
        middle = low + low.swapaxes(-1, -2)
        left = np.linalg.solve(factor.swapaxes(-1, -2), middle)
        grad = 0.5 * np.linalg.solve(factor.swapaxes(-1, -2), left.swapaxes(-1, -2)).swapaxes(-1, -2)
        return (grad.astype(inputs[0].dtype, copy=False),)


class SumLogDiag(OperatorProperty):
    """Σ log of the diagonal of square matrices."""

    name = "_linalg_sumlogdiag"
    aliases = ("linalg_sumlogdiag",)
    arguments = ("A",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """One number per matrix."""
        a = square(s)
        if a is not None:
            s.assign("output", a[:-2] or (1,))

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs A."""
        return g.op("_backward_linalg_sumlogdiag", (g.out_grad(), g.input(0)))

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSumLogDiag(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A sum over the diagonal."""
        a = wide(inputs[0])
        with np.errstate(all="ignore"):
            y = np.log(np.diagonal(a, 0, -2, -1)).sum(-1)
        return (np.asarray(y).reshape(a.shape[:-2] or (1,)).astype(inputs[0].dtype, copy=False),)


class BackwardSumLogDiag(OperatorProperty):
    """Gradient of sumlogdiag."""

    name = "_backward_linalg_sumlogdiag"
    arguments = ("out_grad", "A")
    results = ("A_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As A."""
        s.unify(["A", "A_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """out_grad over the diagonal."""
        g, a = inputs
        out = np.zeros_like(a)
        n = np.arange(a.shape[-1])
        out[..., n, n] = g.reshape(*a.shape[:-2], 1) / a[..., n, n]
        return (out,)


OPERATORS: tuple[type[OperatorProperty], ...] = (Potrf, SumLogDiag)
