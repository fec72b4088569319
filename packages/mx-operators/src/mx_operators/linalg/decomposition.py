# SPDX-License-Identifier: Apache-2.0
"""Orthogonal decompositions: linalg gelqf (LQ) and syevd (eigenvalues of symmetric matrices).

Source of the gradients: Seeger et al., Auto-Differentiating Linear Algebra, 2017.
"""

from __future__ import annotations

import numpy as np

from mx_core.errors import ArgumentError
from mx_core.operator import Array, Arrays, NoParams, Operator, ReferenceContext, Shapes
from mx_operators.linalg.factor import square
from mx_operators.linalg.triangular import solve
from mx_operators.nn.base import wide


def _transposed(x: Array) -> Array:
    return x.swapaxes(-1, -2)


class Gelqf(Operator):
    """A = L·Q of (…, m, n), m ≤ n: Q (…, m, n) with orthonormal rows and L (…, m, m) lower triangular."""

    name = "_linalg_gelqf"
    floating_only = True
    aliases = ("linalg_gelqf",)
    arguments = ("A",)
    results = ("output0", "output1")

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        """Q as A, L square."""
        s.unify(["A", "output0"])
        a = s.get("A")
        if a is None:
            return
        if len(a) < 2 or (-1 not in a[-2:] and a[-2] > a[-1]):
            raise s.error(f"A: expected matrices with at least as many columns as rows, got {a}")
        s.assign("output1", (*a[:-2], a[-2], a[-2]))

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """The QR factors of the transpose."""
        q, r = np.linalg.qr(_transposed(wide(inputs[0])))
        return _transposed(q).astype(inputs[0].dtype, copy=False), _transposed(r).astype(
            inputs[0].dtype, copy=False
        )

    def backward(self, p: NoParams, out_grads: Arrays, outputs: Arrays) -> Array:
        """L⁻ᵀ·(dQ + sym(M)·Q), M = Lᵀ·dL − dQ·Qᵀ, sym the lower triangle mirrored upwards."""
        (dq, dl), (q, factor) = out_grads, outputs
        m = np.tril(_transposed(factor) @ np.tril(dl) - dq @ _transposed(q))
        mirrored = m + _transposed(np.tril(m, -1))
        return solve(_transposed(factor), dq + mirrored @ q, self.backward_name)


class Syevd(Operator):
    """A = Uᵀ·diag(λ)·U of symmetric matrices: U, eigenvectors in rows, and λ in ascending order.

    Of each eigenvector the component of largest absolute value is positive. The lower triangle of
    A is read.
    """

    name = "_linalg_syevd"
    custom_gradient = True  # of symmetric matrices: both triangles share it
    floating_only = True
    aliases = ("linalg_syevd",)
    arguments = ("A",)
    results = ("output0", "output1")

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        """U as A; one number per row."""
        a = square(s)
        s.unify(["A", "output0"])
        if a is not None:
            s.assign("output1", a[:-1])

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        a = wide(inputs[0])
        try:
            values, vectors = np.linalg.eigh(a)
        except np.linalg.LinAlgError as error:
            raise ArgumentError(f"[{self.name}] A of shape {a.shape}: {error}") from None
        u = _transposed(vectors)
        if u.size:
            largest = np.take_along_axis(u, abs(u).argmax(-1)[..., None], -1)
            u = np.where(largest < 0, -u, u)
        return u.astype(inputs[0].dtype, copy=False), values.astype(inputs[0].dtype, copy=False)

    def backward(self, p: NoParams, out_grads: Arrays, outputs: Arrays) -> Array:
        """Uᵀ·(diag(dλ) + sym(F ∘ U·dUᵀ))·U, Fᵢⱼ = 1/(λⱼ − λᵢ), 0 for equal eigenvalues."""
        (du, dl), (u, values) = out_grads, outputs
        gap = values[..., None, :] - values[..., :, None]
        scale = abs(values).max(-1, initial=0)[..., None, None]
        apart = abs(gap) > scale * np.finfo(values.dtype).eps
        m = np.where(apart, u @ _transposed(du) / np.where(apart, gap, 1), 0)
        middle = (m + _transposed(m)) / 2
        n = np.arange(values.shape[-1])
        middle[..., n, n] += dl
        return _transposed(u) @ middle @ u
