# SPDX-License-Identifier: Apache-2.0
"""Products: dot, batch_dot, linalg gemm, gemm2, syrk."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

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
from mx_operators.bilinear import bilinear_gradient
from mx_operators.nn.base import wide

STYPES = ("csr", "default", "row_sparse", None)


class DotParam(Params):
    """Transposes."""

    transpose_a: bool = opt(False, "transpose the first array")
    transpose_b: bool = opt(False, "transpose the second array")
    forward_stype: str | None = opt(None, "storage type of the result", choices=STYPES)


def _lhs(x: Array, transpose: bool) -> Array:
    """As (rows, depth); transposed means the first axis is the depth."""
    if x.ndim == 1:
        return x.reshape(1, -1)
    return _first_apart(x).T if transpose else _last_apart(x)


def _rhs(x: Array, transpose: bool) -> Array:
    """As (depth, columns); transposed means the last axis is the depth."""
    if x.ndim == 1:
        return x.reshape(-1, 1)
    return _last_apart(x).T if transpose else _first_apart(x)


def _first_apart(x: Any) -> Any:
    return x.reshape(x.shape[0], prod(x.shape[1:]))


def _last_apart(x: Any) -> Any:
    return x.reshape(prod(x.shape[:-1]), x.shape[-1])


class Dot(Operator[DotParam]):
    """Sum over the last axis of lhs and the first of rhs.

    Of vectors the inner product, of matrices the matrix product; transpose_a sums over the first
    axis of lhs, transpose_b over the last of rhs.
    """

    name = "dot"
    arguments = ("lhs", "rhs")

    def infer_shape(self, p: DotParam, s: Shapes) -> None:
        """Forward, and the depth both ways."""
        lhs, rhs = s.get("lhs"), s.get("rhs")
        if lhs is None or rhs is None:
            return
        if not lhs or not rhs:
            raise s.error(f"expected at least one dimension, got lhs {lhs}, rhs {rhs}")
        front, back = p.transpose_a and len(lhs) > 1, p.transpose_b and len(rhs) > 1
        depth_l, depth_r = lhs[0] if front else lhs[-1], rhs[-1] if back else rhs[0]
        if depth_l != depth_r and -1 not in (depth_l, depth_r):
            raise s.error(f"cannot sum lhs {lhs} and rhs {rhs}: {depth_l} differs from {depth_r}")
        rest = (lhs[1:] if front else lhs[:-1]) + (rhs[:-1] if back else rhs[1:])
        s.assign("output", rest or (1,))

    def reference(self, p: DotParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A matrix product of reshaped views."""
        a, b = (wide(x) for x in inputs)
        y = _lhs(a, p.transpose_a) @ _rhs(b, p.transpose_b)
        front, back = p.transpose_a and a.ndim > 1, p.transpose_b and b.ndim > 1
        shape = (a.shape[1:] if front else a.shape[:-1]) + (b.shape[:-1] if back else b.shape[1:])
        return (y.reshape(shape or (1,)).astype(inputs[0].dtype, copy=False),)

    def backward(self, p: DotParam, out_grad: Array, lhs: Array, rhs: Array) -> Arrays:
        left, right = _lhs(lhs, p.transpose_a), _rhs(rhs, p.transpose_b)
        head = out_grad.reshape(left.shape[0], right.shape[1])
        da, db = head @ right.T, left.T @ head
        da = da.T if p.transpose_a and lhs.ndim > 1 else da
        db = db.T if p.transpose_b and rhs.ndim > 1 else db
        return da.reshape(lhs.shape), db.reshape(rhs.shape)

    def backward_gradient(self, p: DotParam, g: GradientBuilder) -> Gradients:
        """Products of the same kind."""
        return bilinear_gradient(self, p, g, p)


class BatchDot(Operator[DotParam]):
    """Matrix products of (…, M, K) with (…, K, N), one per leading index."""

    name = "batch_dot"
    arguments = ("lhs", "rhs")

    def infer_shape(self, p: DotParam, s: Shapes) -> None:
        """Forward, once the axis that is summed is known; the leading axes both ways."""
        lhs, rhs = s.get("lhs"), s.get("rhs")
        if lhs is None or rhs is None:
            return
        if len(lhs) < 3 or len(lhs) != len(rhs):
            raise s.error(f"expected two arrays of the same 3 or more dimensions, got {lhs} and {rhs}")
        m, k = (lhs[-1], lhs[-2]) if p.transpose_a else lhs[-2:]
        kk, n = (rhs[-1], rhs[-2]) if p.transpose_b else rhs[-2:]
        if k != kk and -1 not in (k, kk):
            raise s.error(f"cannot multiply lhs {lhs} and rhs {rhs}: {k} differs from {kk}")
        s.assign("lhs", (*rhs[:-2], -1, -1))
        s.assign("rhs", (*lhs[:-2], -1, -1))
        if -1 not in (k, kk):
            s.assign("output", (*s.ranked("lhs")[:-2], m, n))

    def gradient(self, p: DotParam, g: GradientBuilder) -> Gradients:
        """Products again, of this operator."""

        def product(a: Entry, b: Entry, ta: bool, tb: bool) -> Entry:
            return g.op("batch_dot", (a, b), transpose_a=ta, transpose_b=tb)[0]

        head, (a, b) = g.out_grad(), g.inputs
        ta, tb = p.transpose_a, p.transpose_b
        da = product(b, head, tb, True) if ta else product(head, b, False, not tb)
        db = product(head, a, True, ta) if tb else product(a, head, not ta, False)
        return (da, db)

    def reference(self, p: DotParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (_product(inputs, p).astype(inputs[0].dtype, copy=False),)


def _transposed(x: Array, transpose: bool) -> Array:
    return x.swapaxes(-1, -2) if transpose else x


def _product(inputs: Arrays, p: DotParam | _ProductParam) -> Array:
    return _transposed(wide(inputs[0]), p.transpose_a) @ _transposed(wide(inputs[1]), p.transpose_b)


class _ProductParam(Params):
    transpose_a: bool = opt(False, "transpose A")
    transpose_b: bool = opt(False, "transpose B")
    alpha: float = opt(1.0, "factor of the product", runtime=True)


class Gemm2Param(_ProductParam):
    """Transposes and scale."""

    axis: int = opt(-2, "the row axis")


class GemmParam(_ProductParam):
    """Transposes and scales."""

    beta: float = opt(1.0, "factor of C", runtime=True)
    axis: int = opt(-2, "the row axis")


def _matrix_shapes(p: Gemm2Param | GemmParam, s: Shapes) -> None:
    a, b = s.get("A"), s.get("B")
    if a is None or b is None:
        return
    if len(a) < 2 or len(a) != len(b):
        raise s.error(f"expected two arrays of the same 2 or more dimensions, got {a} and {b}")
    axis = p.axis + len(a) if p.axis < 0 else p.axis
    if not 0 <= axis < len(a) - 1:
        raise s.error(f"axis: expected one of {len(a)} but the last, got {p.axis}")
    m, k = (a[-1], a[axis]) if p.transpose_a else (a[axis], a[-1])
    kk, n = (b[-1], b[axis]) if p.transpose_b else (b[axis], b[-1])
    front, between = a[:axis], a[axis + 1 : -1]
    if (k != kk and -1 not in (k, kk)) or (front, between) != (b[:axis], b[axis + 1 : -1]):
        raise s.error(f"cannot multiply A {a} and B {b}" + (f" along axis {p.axis}" if between else ""))
    s.assign("output", (*front, m, *between, n))


def _scaled_product(inputs: Arrays, p: Gemm2Param | GemmParam) -> Array:
    rows_last = [np.moveaxis(wide(x), p.axis, -2) for x in inputs[:2]]
    return np.moveaxis(p.alpha * _product(rows_last, p), -2, p.axis)


def _product_gradients(p: Gemm2Param | GemmParam, g: GradientBuilder) -> dict[str, Entry]:
    def product(x: Entry, y: Entry, tx: bool, ty: bool) -> Entry:
        return g.op("_linalg_gemm2", (x, y), transpose_a=tx, transpose_b=ty, alpha=p.alpha, axis=p.axis)[0]

    head, a, b = g.out_grad(), g.input("A"), g.input("B")
    ta, tb = p.transpose_a, p.transpose_b
    da = product(b, head, tb, True) if ta else product(head, b, False, not tb)
    db = product(head, a, True, ta) if tb else product(a, head, not ta, False)
    return {"A": da, "B": db}


class Gemm2(Operator[Gemm2Param]):
    """alpha · op(A) · op(B), matrices of the row axis and the last one."""

    name = "_linalg_gemm2"
    aliases = ("linalg_gemm2",)
    arguments = ("A", "B")

    def infer_shape(self, p: Gemm2Param, s: Shapes) -> None:
        _matrix_shapes(p, s)

    def gradient(self, p: Gemm2Param, g: GradientBuilder) -> Gradients:
        return _product_gradients(p, g)

    def reference(self, p: Gemm2Param, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (_scaled_product(inputs, p).astype(inputs[0].dtype, copy=False),)


class Gemm(Operator[GemmParam]):
    """alpha · op(A) · op(B) + beta · C, matrices of the row axis and the last one."""

    name = "_linalg_gemm"
    aliases = ("linalg_gemm",)
    arguments = ("A", "B", "C")

    def infer_shape(self, p: GemmParam, s: Shapes) -> None:
        """Forward; C as the result."""
        _matrix_shapes(p, s)
        s.unify(["C", "output"])

    def gradient(self, p: GemmParam, g: GradientBuilder) -> Gradients:
        """Products again, and beta times out_grad."""
        return _product_gradients(p, g) | {"C": g.op("_mul_scalar", (g.out_grad(),), scalar=p.beta)[0]}

    def reference(self, p: GemmParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        y = _scaled_product(inputs, p) + p.beta * wide(inputs[2])
        return (y.astype(inputs[0].dtype, copy=False),)


class SyrkParam(Params):
    """Transpose and scale."""

    transpose: bool = opt(False, "Aᵀ·A instead of A·Aᵀ")
    alpha: float = opt(1.0, "factor", runtime=True)


class Syrk(Operator[SyrkParam]):
    """alpha · A·Aᵀ (or Aᵀ·A) over the last two axes."""

    name = "_linalg_syrk"
    aliases = ("linalg_syrk",)
    arguments = ("A",)

    def infer_shape(self, p: SyrkParam, s: Shapes) -> None:
        a = s.get("A")
        if a is not None:
            if len(a) < 2:
                raise s.error(f"A: expected at least 2 dimensions, got {a}")
            n = a[-1] if p.transpose else a[-2]
            s.assign("output", (*a[:-2], n, n))

    def gradient(self, p: SyrkParam, g: GradientBuilder) -> Gradients:
        """alpha · (G + Gᵀ)·A, or A·(G + Gᵀ)."""
        head, a = g.out_grad(), g.input("A")
        pair = ((a, head, False, False), (a, head, False, True)) if p.transpose else (
            (head, a, False, False), (head, a, True, False))  # fmt: skip
        terms = [
            g.op("_linalg_gemm2", (x, y), transpose_a=tx, transpose_b=ty, alpha=p.alpha)[0]
            for x, y, tx, ty in pair
        ]
        return g.op("elemwise_add", terms)

    def reference(self, p: SyrkParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        a = wide(inputs[0])
        transposed = a.swapaxes(-1, -2)
        y = transposed @ a if p.transpose else a @ transposed
        return ((p.alpha * y).astype(inputs[0].dtype, copy=False),)
