# SPDX-License-Identifier: Apache-2.0
"""Products with and solutions of triangular matrices: linalg trmm, trsm, potri."""

from __future__ import annotations

import numpy as np

from mx_core.errors import ArgumentError
from mx_core.operator import (
    Array,
    Arrays,
    Entry,
    GradientBuilder,
    Gradients,
    Operator,
    Params,
    ReferenceContext,
    Shapes,
    opt,
)
from mx_operators.linalg.diagonals import triangular
from mx_operators.linalg.factor import CholeskyParam, flipped, square
from mx_operators.nn.base import wide


class TriangularParam(Params):
    """Which triangle, which side, and scale."""

    transpose: bool = opt(False, "use Aᵀ")
    rightside: bool = opt(False, "A stands to the right of B")
    lower: bool = opt(True, "A is its lower triangle; else the upper one")
    alpha: float = opt(1.0, "factor of the result", runtime=True)


def _triangle(p: TriangularParam, a: Array) -> Array:
    part = np.tril(a) if p.lower else np.triu(a)
    return part.swapaxes(-1, -2) if p.transpose else part


def solve(a: Array, b: Array, op: str) -> Array:
    """a⁻¹·b; ArgumentError when a matrix is singular."""
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError as error:
        raise ArgumentError(f"[{op}] A of shape {a.shape}: {error}") from None


class _Triangular(Operator[TriangularParam]):
    arguments = ("A", "B")

    def infer_shape(self, p: TriangularParam, s: Shapes) -> None:
        s.unify(["B", "output"])
        a, b = square(s), s.get("B")
        if a is None or b is None:
            return
        if len(a) != len(b):
            raise s.error(f"expected two arrays of the same 2 or more dimensions, got {a} and {b}")
        n = b[-1] if p.rightside else b[-2]
        s.assign("A", (*b[:-2], n, n))
        a = s.ranked("A")
        s.assign("B", (*a[:-2], -1, a[-1]) if p.rightside else (*a[:-2], a[-1], -1))


def _product(g: GradientBuilder, x: Entry, y: Entry, tx: bool, ty: bool, alpha: float) -> Entry:
    return g.op("_linalg_gemm2", (x, y), transpose_a=tx, transpose_b=ty, alpha=alpha)[0]


def _outer(g: GradientBuilder, p: TriangularParam, head: Entry, value: Entry, alpha: float) -> Entry:
    """Gradient by A's triangle: alpha · head·valueᵀ, transposed as side and transpose say."""
    first, second = (value, head) if p.transpose != p.rightside else (head, value)
    full = _product(g, first, second, p.rightside, not p.rightside, alpha)
    return triangular(g, full, p.lower)


class Trmm(_Triangular):
    """alpha · op(A)·B, or alpha · B·op(A) with rightside; A triangular."""

    name = "_linalg_trmm"
    aliases = ("linalg_trmm",)

    def gradient(self, p: TriangularParam, g: GradientBuilder) -> Gradients:
        """A triangle of a product; the transposed product."""
        transposed = self.Param(
            transpose=not p.transpose, rightside=p.rightside, lower=p.lower, alpha=p.alpha
        )
        grad = g.op("_linalg_trmm", (g.input("A"), g.out_grad()), params=transposed)[0]
        return (_outer(g, p, g.out_grad(), g.input("B"), p.alpha), grad)

    def reference(self, p: TriangularParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        a, b = _triangle(p, wide(inputs[0])), wide(inputs[1])
        return ((p.alpha * (b @ a if p.rightside else a @ b)).astype(inputs[0].dtype, copy=False),)


class Trsm(_Triangular):
    """X with op(A)·X = alpha · B, or X·op(A) = alpha · B with rightside; A triangular."""

    name = "_linalg_trsm"
    aliases = ("linalg_trsm",)

    def gradient(self, p: TriangularParam, g: GradientBuilder) -> Gradients:
        """The transposed solution W of the out-gradient; a triangle of −W·Xᵀ."""
        transposed = self.Param(transpose=not p.transpose, rightside=p.rightside, lower=p.lower)
        w = g.op("_linalg_trsm", (g.input("A"), g.out_grad()), params=transposed)[0]
        return (_outer(g, p, w, g.output(), -1.0), g.op("_mul_scalar", (w,), scalar=p.alpha)[0])

    def reference(self, p: TriangularParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        a, b = _triangle(p, wide(inputs[0])), wide(inputs[1])
        if p.rightside:
            x = solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2), self.name).swapaxes(-1, -2)
        else:
            x = solve(a, b, self.name)
        return ((p.alpha * x).astype(inputs[0].dtype, copy=False),)


class Potri(Operator[CholeskyParam]):
    """(A·Aᵀ)⁻¹ for a lower triangular A, (Aᵀ·A)⁻¹ for an upper one: the factor that potrf gives."""

    name = "_linalg_potri"
    aliases = ("linalg_potri",)
    arguments = ("A",)

    def infer_shape(self, p: CholeskyParam, s: Shapes) -> None:
        square(s)
        s.unify(["A", "output"])

    def gradient(self, p: CholeskyParam, g: GradientBuilder) -> Gradients:
        """The triangle of −S·A, or of −A·S, where S = P·(G + Gᵀ)·P and P is the result."""
        result, head = g.output(), g.out_grad()
        both = g.op(
            "elemwise_add",
            [_product(g, result, head, False, transpose, 1.0) for transpose in (False, True)],
        )[0]
        middle = _product(g, both, result, False, False, 1.0)
        factor = triangular(g, g.input("A"), p.lower)
        left, right = (middle, factor) if p.lower else (factor, middle)
        return (triangular(g, _product(g, left, right, False, False, -1.0), p.lower),)

    def reference(self, p: CholeskyParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """The inverse factor times its transpose."""
        a = np.tril(flipped(wide(inputs[0]), p))
        identity = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
        inverse = solve(a, identity, self.name)
        return ((inverse.swapaxes(-1, -2) @ inverse).astype(inputs[0].dtype, copy=False),)
