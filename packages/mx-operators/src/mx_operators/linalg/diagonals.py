# SPDX-License-Identifier: Apache-2.0
"""Diagonals and triangles of matrices as vectors, and back: extractdiag … maketrian."""

from __future__ import annotations

from math import isqrt

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
from mx_operators.linalg.factor import square
from mx_operators.nn.base import at


class DiagonalParam(Params):
    """Which diagonal."""

    offset: int = opt(0, "0: the main diagonal; positive: above it; negative: below it")


class TriangleParam(Params):
    """Which triangle."""

    offset: int = opt(0, "0: with the main diagonal; positive: above it; negative: below it")
    lower: bool = opt(True, "with offset 0, the lower triangle; else the upper one")


def triangle(p: TriangleParam, n: int) -> tuple[Array, Array]:
    """Rows and columns of the triangle of an (n, n) matrix: a lower one row by row, an upper one column by column."""
    if p.offset < 0 or (p.offset == 0 and p.lower):
        return np.tril_indices(n, p.offset)
    columns, rows = np.tril_indices(n, -p.offset)
    return rows, columns


def triangular(g: GradientBuilder, matrix: Entry, lower: bool) -> Entry:
    """Gradient-builder entry: a matrix with one triangle set to zero."""
    vector = g.op("_linalg_extracttrian", (matrix,), lower=lower)[0]
    return g.op("_linalg_maketrian", (vector,), lower=lower)[0]


def _vector(s: Shapes) -> tuple[int, ...] | None:
    a = s.get("A")
    if a is not None and not a:
        raise s.error("A: expected at least 1 dimension, got ()")
    if a is not None and a[-1] == 0:  # no diagonal of a matrix is empty, so it could not be taken out again
        raise s.error(f"A: expected at least 1 element in the last dimension, got {a}")
    return a


def _inside(p: DiagonalParam | TriangleParam, s: Shapes, a: tuple[int, ...]) -> int:
    """Extent of what an offset leaves of square matrices; −1 when unknown."""
    if a[-1] >= 0 and abs(p.offset) >= a[-1]:
        raise s.error(f"offset: expected less than {a[-1]} for A {a}, got {p.offset}")
    return max(a[-1] - abs(p.offset), -1) if a[-1] >= 0 else -1


class ExtractDiag(Operator[DiagonalParam]):
    """A diagonal of (…, n, n) as (…, n − |offset|)."""

    name = "_linalg_extractdiag"
    aliases = ("linalg_extractdiag",)
    arguments = ("A",)

    def infer_shape(self, p: DiagonalParam, s: Shapes) -> None:
        a = square(s)
        if a is not None:
            s.assign("output", (*a[:-2], _inside(p, s, a)))

    def gradient(self, p: DiagonalParam, g: GradientBuilder) -> Gradients:
        return g.op("_linalg_makediag", (g.out_grad(),), params=p)

    def reference(self, p: DiagonalParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (np.diagonal(inputs[0], p.offset, -2, -1).copy(),)


class MakeDiag(Operator[DiagonalParam]):
    """Vectors (…, n) on a diagonal of zero matrices (…, m, m), m = n + |offset|."""

    name = "_linalg_makediag"
    aliases = ("linalg_makediag",)
    arguments = ("A",)

    def infer_shape(self, p: DiagonalParam, s: Shapes) -> None:
        a = _vector(s)
        if a is not None:
            n = a[-1] + abs(p.offset) if a[-1] >= 0 else -1
            s.assign("output", (*a[:-1], n, n))

    def gradient(self, p: DiagonalParam, g: GradientBuilder) -> Gradients:
        return g.op("_linalg_extractdiag", (g.out_grad(),), params=p)

    def reference(self, p: DiagonalParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        a = inputs[0]
        n = a.shape[-1] + abs(p.offset)
        out = np.zeros((*a.shape[:-1], n, n), a.dtype)
        i = np.arange(a.shape[-1])
        out[..., i + max(-p.offset, 0), i + max(p.offset, 0)] = a
        return (out,)


class ExtractTrian(Operator[TriangleParam]):
    """A triangle of (…, n, n) as (…, k·(k + 1)/2), k = n − |offset|.

    A lower triangle is read row by row, an upper one column by column.
    """

    name = "_linalg_extracttrian"
    aliases = ("linalg_extracttrian",)
    arguments = ("A",)

    def infer_shape(self, p: TriangleParam, s: Shapes) -> None:
        a = square(s)
        if a is not None:
            k = _inside(p, s, a)
            s.assign("output", (*a[:-2], k * (k + 1) // 2 if k >= 0 else -1))

    def gradient(self, p: TriangleParam, g: GradientBuilder) -> Gradients:
        return g.op("_linalg_maketrian", (g.out_grad(),), params=p)

    def reference(self, p: TriangleParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (at(inputs[0], triangle(p, inputs[0].shape[-1])),)


class MakeTrian(Operator[TriangleParam]):
    """Vectors (…, k·(k + 1)/2) as a triangle of zero matrices (…, n, n), n = k + |offset|."""

    name = "_linalg_maketrian"
    aliases = ("linalg_maketrian",)
    arguments = ("A",)

    def infer_shape(self, p: TriangleParam, s: Shapes) -> None:
        a = _vector(s)
        if a is None:
            return
        n = -1
        if a[-1] >= 0:
            k = (isqrt(8 * a[-1] + 1) - 1) // 2
            if k * (k + 1) // 2 != a[-1]:
                raise s.error(f"A: {a[-1]} elements are no triangle, in {a}")
            n = k + abs(p.offset)
        s.assign("output", (*a[:-1], n, n))

    def gradient(self, p: TriangleParam, g: GradientBuilder) -> Gradients:
        return g.op("_linalg_extracttrian", (g.out_grad(),), params=p)

    def reference(self, p: TriangleParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        a = inputs[0]
        n = (isqrt(8 * a.shape[-1] + 1) - 1) // 2 + abs(p.offset)
        out = np.zeros((*a.shape[:-1], n, n), a.dtype)
        rows, columns = triangle(p, n)
        out[..., rows, columns] = a
        return (out,)
