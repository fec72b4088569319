# SPDX-License-Identifier: Apache-2.0
"""Factorisations: linalg potrf, sumlogdiag.

Source of the gradient: Murray, Differentiation of the Cholesky decomposition, 2016.
"""

from __future__ import annotations

import numpy as np

from mx_core.errors import ArgumentError
from mx_core.operator import Array, Arrays, NoParams, Operator, Params, ReferenceContext, Shapes, opt
from mx_operators.nn.base import wide


def square(s: Shapes, name: str = "A") -> tuple[int, ...] | None:
    """The shape of a stack of square matrices, checked."""
    a = s.get(name)
    if a is not None and (len(a) < 2 or (a[-1] != a[-2] and -1 not in a[-2:])):
        raise s.error(f"{name}: expected square matrices, got {a}")
    return a


class CholeskyParam(Params):
    """Which triangle."""

    lower: bool = opt(True, "the factor is a lower triangle; else an upper one")


def flipped(x: Array, p: CholeskyParam) -> Array:
    """Upper triangles as lower ones, and back."""
    return x if p.lower else x.swapaxes(-1, -2)


class Potrf(Operator[CholeskyParam]):
    """Cholesky factor of a symmetric positive definite A: lower L with A = L·Lᵀ, or upper U with A = Uᵀ·U."""

    name = "_linalg_potrf"
    floating_only = True
    aliases = ("linalg_potrf",)
    arguments = ("A",)

    def infer_shape(self, p: CholeskyParam, s: Shapes) -> None:
        square(s)
        s.unify(["A", "output"])

    def reference(self, p: CholeskyParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """LAPACK through NumPy; reads the triangle of the factor."""
        a = flipped(wide(inputs[0]), p)
        try:
            return (flipped(np.linalg.cholesky(a), p).astype(inputs[0].dtype, copy=False),)
        except np.linalg.LinAlgError as error:
            raise ArgumentError(f"[_linalg_potrf] A of shape {a.shape}: {error}") from None

    def backward(self, p: CholeskyParam, out_grad: Array, output: Array) -> Array:
        """½ L⁻ᵀ (Φ(LᵀG) + Φ(LᵀG)ᵀ) L⁻¹, Φ the lower triangle with half the diagonal; symmetric."""
        g, factor = flipped(out_grad, p), flipped(output, p)
        low = np.tril(factor.swapaxes(-1, -2) @ np.tril(g))
        n = low.shape[-1]
        low[..., np.arange(n), np.arange(n)] *= 0.5
        middle = low + low.swapaxes(-1, -2)
        left = np.linalg.solve(factor.swapaxes(-1, -2), middle)
        return 0.5 * np.linalg.solve(factor.swapaxes(-1, -2), left.swapaxes(-1, -2)).swapaxes(-1, -2)


class SumLogDiag(Operator):
    """Σ log of the diagonal of square matrices."""

    name = "_linalg_sumlogdiag"
    aliases = ("linalg_sumlogdiag",)
    arguments = ("A",)

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        a = square(s)
        if a is not None:
            s.assign("output", a[:-2] or (1,))

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A sum over the diagonal."""
        a = wide(inputs[0])
        with np.errstate(all="ignore"):
            y = np.log(np.diagonal(a, 0, -2, -1)).sum(-1)
        return (np.asarray(y).reshape(a.shape[:-2] or (1,)).astype(inputs[0].dtype, copy=False),)

    def backward(self, p: NoParams, out_grad: Array, A: Array) -> Array:
        """out_grad over the diagonal."""
        grad = np.zeros_like(A)
        n = np.arange(A.shape[-1])
        grad[..., n, n] = out_grad.reshape(*A.shape[:-2], 1) / A[..., n, n]
        return grad
