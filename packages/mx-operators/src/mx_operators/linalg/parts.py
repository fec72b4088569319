# SPDX-License-Identifier: Apache-2.0
"""Diagonals and triangles of matrices as vectors, and back: extractdiag … maketrian."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.linalg.factor import square


@param
class DiagonalParam:
    """Which diagonal."""

    offset: int = opt(0, "0: the main diagonal; positive: above it; negative: below it")


@param
class TriangleParam:
    """Which triangle."""

    offset: int = opt(0, "0: with the main diagonal; positive: above it; negative: below it")
    lower: bool = opt(True, "with offset 0, the lower triangle; else the upper one")


def triangle(p: Any, n: int) -> tuple[Any, Any]:
    """Rows and columns of the triangle of an (n, n) matrix: a lower one row by row, an upper one column by column."""
    if p.offset < 0 or (p.offset == 0 and p.lower):
        return np.tril_indices(n, p.offset)
    columns, rows = np.tril_indices(n, -p.offset)
    return rows, columns


def triangular(g: Any, matrix: Any, lower: bool) -> Any:
    """Gradient-builder entry: a matrix with one triangle set to zero."""
    vector = g.op("_linalg_extracttrian", (matrix,), lower=lower)[0]
    return g.op("_linalg_maketrian", (vector,), lower=lower)[0]


def _vector(s: Any) -> tuple[int, ...] | None:
    a = s.get("A")
    if a is not None and not a:
        raise s.error("A: expected at least 1 dimension, got ()")
    if a is not None and a[-1] == 0:  # no diagonal of a matrix is empty, so it could not be taken out again
        raise s.error(f"A: expected at least 1 element in the last dimension, got {a}")
    return None if a is None else tuple(a)


def _inside(p: Any, s: Any, a: tuple[int, ...]) -> int:
    """Extent of what an offset leaves of square matrices; −1 when unknown."""
    if a[-1] >= 0 and abs(p.offset) >= a[-1]:
        raise s.error(f"offset: expected less than {a[-1]} for A {a}, got {p.offset}")
    return max(a[-1] - abs(p.offset), -1) if a[-1] >= 0 else -1


class ExtractDiag(OperatorProperty):
    """A diagonal of (…, n, n) as (…, n − |offset|)."""

    name = "_linalg_extractdiag"
    aliases = ("linalg_extractdiag",)
    Param = DiagonalParam
    arguments = ("A",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        a = square(s)
        if a is not None:
            s.assign("output", (*a[:-2], _inside(p, s, a)))

    def gradient(self, p: Any, g: Any) -> Any:
        """Put back."""
        return g.op("_linalg_makediag", (g.out_grad(),), params=p)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's diagonal."""
        return (np.diagonal(inputs[0], p.offset, -2, -1).copy(),)


class MakeDiag(OperatorProperty):
    """Vectors (…, n) on a diagonal of zero matrices (…, m, m), m = n + |offset|."""

    name = "_linalg_makediag"
    aliases = ("linalg_makediag",)
    Param = DiagonalParam
    arguments = ("A",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        a = _vector(s)
        if a is not None:
            n = a[-1] + abs(p.offset) if a[-1] >= 0 else -1
            s.assign("output", (*a[:-1], n, n))

    def gradient(self, p: Any, g: Any) -> Any:
        """Taken out again."""
        return g.op("_linalg_extractdiag", (g.out_grad(),), params=p)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """An assignment."""
        a = inputs[0]
        n = a.shape[-1] + abs(p.offset)
        out = np.zeros((*a.shape[:-1], n, n), a.dtype)
        i = np.arange(a.shape[-1])
        out[..., i + max(-p.offset, 0), i + max(p.offset, 0)] = a
        return (out,)


class ExtractTrian(OperatorProperty):
    """A triangle of (…, n, n) as (…, k·(k + 1)/2), k = n − |offset|.

    A lower triangle is read row by row, an upper one column by column.
    """

    name = "_linalg_extracttrian"
    aliases = ("linalg_extracttrian",)
    Param = TriangleParam
    arguments = ("A",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        a = square(s)
        if a is not None:
            k = _inside(p, s, a)
            s.assign("output", (*a[:-2], k * (k + 1) // 2 if k >= 0 else -1))

    def gradient(self, p: Any, g: Any) -> Any:
        """Put back."""
        return g.op("_linalg_maketrian", (g.out_grad(),), params=p)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Fancy indexing."""
        return (inputs[0][(..., *triangle(p, inputs[0].shape[-1]))],)


class MakeTrian(OperatorProperty):
    """Vectors (…, k·(k + 1)/2) as a triangle of zero matrices (…, n, n), n = k + |offset|."""

    name = "_linalg_maketrian"
    aliases = ("linalg_maketrian",)
    Param = TriangleParam
    arguments = ("A",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
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

    def gradient(self, p: Any, g: Any) -> Any:
        """Taken out again."""
        return g.op("_linalg_extracttrian", (g.out_grad(),), params=p)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """An assignment."""
        a = inputs[0]
        n = (isqrt(8 * a.shape[-1] + 1) - 1) // 2 + abs(p.offset)
        out = np.zeros((*a.shape[:-1], n, n), a.dtype)
        out[(..., *triangle(p, n))] = a
        return (out,)


OPERATORS: tuple[type[OperatorProperty], ...] = (ExtractDiag, MakeDiag, ExtractTrian, MakeTrian)
