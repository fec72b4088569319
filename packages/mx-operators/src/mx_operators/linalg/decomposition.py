# SPDX-License-Identifier: Apache-2.0
"""Orthogonal decompositions: linalg gelqf (LQ) and syevd (eigenvalues of symmetric matrices).

Source of the gradients: Seeger et al., Auto-Differentiating Linear Algebra, 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_core.operator import OperatorProperty
from mx_core.operator.property import ReferenceContext
from mx_operators.linalg.factor import square
from mx_operators.linalg.triangular import solve
from mx_operators.nn.base import wide


def _turned(x: Any) -> Any:
    return x.swapaxes(-1, -2)


class Gelqf(OperatorProperty):
    """A = L·Q of (…, m, n), m ≤ n: Q (…, m, n) with orthonormal rows and L (…, m, m) lower triangular."""

    name = "_linalg_gelqf"
    aliases = ("linalg_gelqf",)
    arguments = ("A",)
    results = ("output0", "output1")

    def infer_shape(self, p: Any, s: Any) -> None:
        """Q as A, L square."""
        s.unify(["A", "output0"])
        a = s.get("A")
        if a is None:
            return
        if len(a) < 2 or (-1 not in a[-2:] and a[-2] > a[-1]):
            raise s.error(f"A: expected matrices with at least as many columns as rows, got {a}")
        s.assign("output1", (*a[:-2], a[-2], a[-2]))

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs both factors."""
        return g.op("_backward_linalg_gelqf", (g.out_grad(0), g.out_grad(1), g.output(0), g.output(1)))

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardGelqf(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The QR factors of the transpose."""
        q, r = np.linalg.qr(_turned(wide(inputs[0])))
        return _turned(q).astype(inputs[0].dtype, copy=False), _turned(r).astype(inputs[0].dtype, copy=False)


class BackwardGelqf(OperatorProperty):
    """Gradient of gelqf."""

    name = "_backward_linalg_gelqf"
    arguments = ("Q_grad", "L_grad", "Q", "L")
    results = ("A_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As Q."""
        s.unify(["Q", "Q_grad", "A_grad"])
        s.unify(["L", "L_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """L⁻ᵀ·(dQ + sym(M)·Q), M = Lᵀ·dL − dQ·Qᵀ, sym the lower triangle mirrored upwards."""
        dq, dl, q, factor = (wide(x) for x in inputs)
        m = np.tril(_turned(factor) @ np.tril(dl) - dq @ _turned(q))
        mirrored = m + _turned(np.tril(m, -1))
        return (solve(_turned(factor), dq + mirrored @ q, self.name).astype(inputs[0].dtype, copy=False),)


class Syevd(OperatorProperty):
    """A = Uᵀ·diag(λ)·U of symmetric matrices: U, eigenvectors in rows, and λ in ascending order.

    Of each eigenvector the component of largest absolute value is positive. The lower triangle of
    A is read.
    """

    name = "_linalg_syevd"
    aliases = ("linalg_syevd",)
    arguments = ("A",)
    results = ("output0", "output1")

    def infer_shape(self, p: Any, s: Any) -> None:
        """U as A; one number per row."""
        a = square(s)
        s.unify(["A", "output0"])
        if a is not None:
            s.assign("output1", a[:-1])

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs both results."""
        return g.op("_backward_linalg_syevd", (g.out_grad(0), g.out_grad(1), g.output(0), g.output(1)))

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSyevd(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """LAPACK through NumPy."""
        a = wide(inputs[0])
        try:
            values, vectors = np.linalg.eigh(a)
        except np.linalg.LinAlgError as error:
            raise ArgumentError(f"[{self.name}] A of shape {a.shape}: {error}") from None
        u = _turned(vectors)
        if u.size:
            largest = np.take_along_axis(u, abs(u).argmax(-1)[..., None], -1)
            u = np.where(largest < 0, -u, u)
        return u.astype(inputs[0].dtype, copy=False), values.astype(inputs[0].dtype, copy=False)


class BackwardSyevd(OperatorProperty):
    """Gradient of syevd, symmetric; eigenvectors of equal eigenvalues contribute nothing."""

    name = "_backward_linalg_syevd"
    arguments = ("U_grad", "L_grad", "U", "L")
    results = ("A_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As U."""
        s.unify(["U", "U_grad", "A_grad"])
        s.unify(["L", "L_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Uᵀ·(diag(dλ) + sym(F ∘ U·dUᵀ))·U, Fᵢⱼ = 1/(λⱼ − λᵢ)."""
        du, dl, u, values = (wide(x) for x in inputs)
        gap = values[..., None, :] - values[..., :, None]
        scale = abs(values).max(-1, initial=0)[..., None, None]
        apart = abs(gap) > scale * np.finfo(values.dtype).eps
        m = np.where(apart, u @ _turned(du) / np.where(apart, gap, 1), 0)
        middle = (m + _turned(m)) / 2
        n = np.arange(values.shape[-1])
        middle[..., n, n] += dl
        return ((_turned(u) @ middle @ u).astype(inputs[0].dtype, copy=False),)


OPERATORS: tuple[type[OperatorProperty], ...] = (Gelqf, Syevd)
