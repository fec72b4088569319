# SPDX-License-Identifier: Apache-2.0
"""Inverses and determinants: linalg inverse, det, slogdet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_core.operator import OperatorProperty
from mx_core.operator.property import ReferenceContext
from mx_operators.backward import BackwardOperator
from mx_operators.linalg.factor import square
from mx_operators.nn.base import wide


class Inverse(OperatorProperty):
    """A⁻¹ of square matrices."""

    name = "_linalg_inverse"
    aliases = ("linalg_inverse",)
    arguments = ("A",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As A."""
        square(s)
        s.unify(["A", "output"])

    def gradient(self, p: Any, g: Any) -> Any:
        """−A⁻ᵀ·G·A⁻ᵀ."""
        left = g.op("_linalg_gemm2", (g.output(0), g.out_grad()), transpose_a=True)[0]
        return g.op("_linalg_gemm2", (left, g.output(0)), transpose_b=True, alpha=-1.0)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """LAPACK through NumPy."""
        a = wide(inputs[0])
        try:
            return (np.linalg.inv(a).astype(inputs[0].dtype, copy=False),)
        except np.linalg.LinAlgError as error:
            raise ArgumentError(f"[{self.name}] A of shape {a.shape}: {error}") from None


def _per_matrix(values: Any, like: Any) -> Any:
    """One number per matrix; (1,) for a single matrix."""
    return np.asarray(values).reshape(like.shape[:-2] or (1,)).astype(like.dtype)


class Det(OperatorProperty):
    """Determinants of (…, n, n) as (…); (1,) for a single matrix."""

    name = "_linalg_det"
    aliases = ("linalg_det",)
    arguments = ("A",)
    results = ("output0",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """One number per matrix."""
        a = square(s)
        if a is not None:
            s.assign("output0", a[:-2] or (1,))

    def gradient(self, p: Any, g: Any) -> Any:
        """The cofactors."""
        return g.op("_backward_linalg_det", (g.out_grad(), g.input(0)))

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardDet(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """LAPACK through NumPy."""
        return (_per_matrix(np.linalg.det(wide(inputs[0])), inputs[0]),)


def cofactors(a: Any) -> Any:
    """det(A)·A⁻ᵀ, for singular matrices too: det(U·V)·U·diag(Π_{j≠i} sⱼ)·V of A = U·diag(s)·V."""
    finite = np.isfinite(a).all((-2, -1), keepdims=True)
    u, s, v = np.linalg.svd(np.where(finite, a, 0))
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    sign = (np.linalg.det(u) * np.linalg.det(v))[..., None, None]
    return np.where(finite, sign * ((u * others[..., None, :]) @ v), np.nan)


class BackwardDet(BackwardOperator):
    """Gradient of det: the cofactor matrix (Jacobi's formula)."""

    name = "_backward_linalg_det"
    arguments = ("out_grad", "A")
    results = ("A_grad",)
    gradient_of = {"A_grad": "A"}

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Cofactors, times out_grad."""
        a = wide(inputs[1])
        head = wide(inputs[0]).reshape(*a.shape[:-2], 1, 1)
        return ((head * cofactors(a)).astype(inputs[1].dtype),)


class Slogdet(OperatorProperty):
    """Sign and logarithm of the absolute value of determinants; 0 and −∞ of singular matrices."""

    name = "_linalg_slogdet"
    aliases = ("linalg_slogdet",)
    arguments = ("A",)
    results = ("output0", "output1")

    def infer_shape(self, p: Any, s: Any) -> None:
        """One number per matrix in both."""
        a = square(s)
        if a is not None:
            s.assign("output0", a[:-2] or (1,))
        s.unify(["output0", "output1"])

    def gradient(self, p: Any, g: Any) -> Any:
        """Of the logarithm; the sign has none."""
        return g.op("_backward_linalg_slogdet", (g.out_grad(1), g.input(0)))

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSlogdet(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """LAPACK through NumPy."""
        sign, logarithm = np.linalg.slogdet(wide(inputs[0]))
        return _per_matrix(sign, inputs[0]), _per_matrix(logarithm, inputs[0])


class BackwardSlogdet(BackwardOperator):
    """Gradient of the logarithm of slogdet: A⁻ᵀ; 0 for singular matrices, which have none."""

    name = "_backward_linalg_slogdet"
    arguments = ("out_grad", "A")
    results = ("A_grad",)
    gradient_of = {"A_grad": "A"}

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The transposed inverse, times out_grad."""
        a = wide(inputs[1])
        singular = (np.linalg.slogdet(a)[0] == 0)[..., None, None]
        inverse = np.linalg.inv(np.where(singular, np.eye(a.shape[-1], dtype=a.dtype), a))
        head = wide(inputs[0]).reshape(*a.shape[:-2], 1, 1)
        grad = np.where(singular, 0, head * inverse.swapaxes(-1, -2))
        return (grad.astype(inputs[1].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (Inverse, Det, Slogdet)
