# SPDX-License-Identifier: Apache-2.0
"""Inverses and determinants: linalg inverse, det, slogdet."""

from __future__ import annotations

import numpy as np

from mx_core.errors import ArgumentError
from mx_core.operator import (
    Array,
    Arrays,
    GradientBuilder,
    Gradients,
    NoParams,
    Operator,
    ReferenceContext,
    Shapes,
)
from mx_operators.linalg.factor import square
from mx_operators.nn.base import wide


class Inverse(Operator):
    """A⁻¹ of square matrices."""

    name = "_linalg_inverse"
    aliases = ("linalg_inverse",)
    arguments = ("A",)

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        square(s)
        s.unify(["A", "output"])

    def gradient(self, p: NoParams, g: GradientBuilder) -> Gradients:
        """−A⁻ᵀ·G·A⁻ᵀ."""
        left = g.op("_linalg_gemm2", (g.output(), g.out_grad()), transpose_a=True)[0]
        return g.op("_linalg_gemm2", (left, g.output()), transpose_b=True, alpha=-1.0)

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        a = wide(inputs[0])
        try:
            return (np.linalg.inv(a).astype(inputs[0].dtype, copy=False),)
        except np.linalg.LinAlgError as error:
            raise ArgumentError(f"[{self.name}] A of shape {a.shape}: {error}") from None


def _per_matrix(values: Array, like: Array) -> Array:
    """One number per matrix; (1,) for a single matrix."""
    return np.asarray(values).reshape(like.shape[:-2] or (1,)).astype(like.dtype)


def cofactors(a: Array) -> Array:
    """det(A)·A⁻ᵀ, for singular matrices too: det(U·V)·U·diag(Π_{j≠i} sⱼ)·V of A = U·diag(s)·V."""
    finite = np.isfinite(a).all((-2, -1), keepdims=True)
    u, s, v = np.linalg.svd(np.where(finite, a, 0))
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    sign = (np.linalg.det(u) * np.linalg.det(v))[..., None, None]
    return np.where(finite, sign * ((u * others[..., None, :]) @ v), np.nan)


class Det(Operator):
    """Determinants of (…, n, n) as (…); (1,) for a single matrix."""

    name = "_linalg_det"
    aliases = ("linalg_det",)
    arguments = ("A",)
    results = ("output0",)

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        a = square(s)
        if a is not None:
            s.assign("output0", a[:-2] or (1,))

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (_per_matrix(np.linalg.det(wide(inputs[0])), inputs[0]),)

    def backward(self, p: NoParams, out_grad: Array, A: Array) -> Array:
        """Cofactors, times out_grad (Jacobi's formula)."""
        return out_grad.reshape(*A.shape[:-2], 1, 1) * cofactors(A)


class Slogdet(Operator):
    """Sign and logarithm of the absolute value of determinants; 0 and −∞ of singular matrices."""

    name = "_linalg_slogdet"
    aliases = ("linalg_slogdet",)
    arguments = ("A",)
    results = ("output0", "output1")

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        """One number per matrix in both."""
        a = square(s)
        if a is not None:
            s.assign("output0", a[:-2] or (1,))
        s.unify(["output0", "output1"])

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        sign, logarithm = np.linalg.slogdet(wide(inputs[0]))
        return _per_matrix(sign, inputs[0]), _per_matrix(logarithm, inputs[0])

    def backward(self, p: NoParams, output1_grad: Array, A: Array) -> Array:
        """The transposed inverse, times out_grad of the logarithm; 0 for singular matrices, which have none."""
        singular = (np.linalg.slogdet(A)[0] == 0)[..., None, None]
        inverse = np.linalg.inv(np.where(singular, np.eye(A.shape[-1], dtype=A.dtype), A))
        head = output1_grad.reshape(*A.shape[:-2], 1, 1)
        return np.where(singular, 0, head * inverse.swapaxes(-1, -2))
