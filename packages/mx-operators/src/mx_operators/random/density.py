# SPDX-License-Identifier: Apache-2.0
"""Probability densities of samples, with gradients of samples and parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from mx_core import expression as X
from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, opt


class PdfParam(Params):
    """Of what."""

    is_log: bool = opt(False, "the logarithm of the density")


def _uniform(x: Any, low: Any, high: Any) -> Any:
    return -X.log(high - low) + 0 * x


def _normal(x: Any, mu: Any, sigma: Any) -> Any:
    return -((x - mu) * (x - mu)) / (2 * sigma * sigma) - X.log(sigma) - 0.9189385332046727


def _exponential(x: Any, lam: Any) -> Any:
    return X.log(lam) - lam * x


def _gamma(x: Any, alpha: Any, beta: Any) -> Any:
    return alpha * X.log(beta) + (alpha - 1) * X.log(x) - beta * x - X.gammaln(alpha)


def _poisson(x: Any, lam: Any) -> Any:
    return x * X.log(lam) - X.gammaln(x + 1) - lam


def _negative_binomial(x: Any, k: Any, p: Any) -> Any:
    return X.gammaln(x + k) - X.gammaln(x + 1) - X.gammaln(k) + k * X.log(p) + x * X.log(1 - p)


def _generalized(x: Any, mu: Any, alpha: Any) -> Any:
    return _negative_binomial(x, 1 / alpha, 1 / (mu * alpha + 1))


def _dirichlet_part(x: Any, alpha: Any) -> Any:
    return (alpha - 1) * X.log(x) - X.gammaln(alpha)


@cache
def _traced(log_density: Callable[..., Any], n: int) -> tuple[Any, Any]:
    made = X.trace(log_density, n)
    return made, X.differentiate(made)


class Density(Operator[PdfParam]):
    """Shared declaration: parameters of shape S, samples S + T, and a density for each sample."""

    arguments: ClassVar[tuple[str, ...]] = ()
    #: the logarithm of the density, traced
    log_density: ClassVar[Callable[..., Any]]
    #: counts: the density is no function that could be differentiated by the sample
    discrete = False
    #: trailing axes that make up one sample
    event = 0

    def infer_shape(self, p: PdfParam, s: Shapes) -> None:
        """As sample, whose first axes are those of the parameters."""
        s.unify(self.arguments[1:])
        sample_shapes(self, s, "output")

    def backward(self, p: PdfParam, out_grad: Array, inputs: Arrays) -> Arrays:
        """Of the samples (zero for counts), and summed for each parameter."""
        with np.errstate(all="ignore"):
            spread = self.spread(inputs)
            g = out_grad.astype(np.float64)
            if not p.is_log:
                g = g * np.exp(self.logarithm(spread))
            g = np.where(self.inside(spread), g, 0.0)
            parts = list(self.slopes(spread, g))
        if self.discrete:
            parts[0] = np.zeros(inputs[0].shape)
        made = []
        for part, x in zip(parts, inputs, strict=True):
            batch = x.ndim - self.event
            axes = tuple(range(batch, batch + part.ndim - x.ndim))
            made.append(part.sum(axes).reshape(x.shape))
        return made

    def spread(self, inputs: Sequence[Any]) -> list[Any]:
        """float64 arrays that broadcast: parameters with axes for those that only samples have."""
        rank = inputs[0].ndim
        made = []
        for x in inputs:
            batch = x.ndim - self.event
            shape = (*x.shape[:batch], *(1,) * (rank - x.ndim), *x.shape[batch:])
            made.append(x.astype(np.float64).reshape(shape))
        return made

    def logarithm(self, spread: Sequence[Any]) -> Any:
        """Log-density of each sample."""
        made, _ = _traced(type(self).log_density, len(spread))
        return X.evaluate(made, spread)[0]

    def slopes(self, spread: Sequence[Any], g: Any) -> Sequence[Any]:
        """g times the derivative of the log-density by each input, in the shape of the samples."""
        _, derived = _traced(type(self).log_density, len(spread))
        return X.evaluate(derived, [g, *spread])

    def inside(self, spread: Sequence[Any]) -> Any:
        """Where the density is not 0."""
        return True

    def reference(self, p: PdfParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        with np.errstate(all="ignore"):
            spread = self.spread(inputs)
            value = np.where(self.inside(spread), self.logarithm(spread), -np.inf)
            return ((value if p.is_log else np.exp(value)).astype(inputs[0].dtype),)


def sample_shapes(op: Density, s: Any, result: str) -> None:
    """Checks that sample fits the parameters, and gives `result` an element per sample."""
    sample = s.get("sample")
    if not op.event:
        s.unify(["sample", result])
    elif sample is not None:
        if len(sample) < op.event:
            raise s.error(f"sample: expected at least {op.event} dimensions, got {sample}")
        s.assign(result, sample[: -op.event])
    for name in op.arguments[1:]:
        given = s.get(name)
        if sample is None or given is None:
            continue
        batch = len(given) - op.event
        there = (*sample[: max(batch, 0)], *(sample[-op.event :] if op.event else ()))
        fits = batch >= 0 and len(given) <= len(sample) and len(there) == len(given)
        if not fits or any(a != b and -1 not in (a, b) for a, b in zip(there, given, strict=True)):
            raise s.error(f"{name}: expected the first axes of sample {sample}, got {given}")


class PdfUniform(Density):
    """1/(high − low)."""

    name = "_random_pdf_uniform"
    aliases = ("random_pdf_uniform",)
    arguments = ("sample", "low", "high")
    log_density = staticmethod(_uniform)


class PdfNormal(Density):
    """exp(−(x − mu)²/(2 sigma²))/(sigma √(2π))."""

    name = "_random_pdf_normal"
    aliases = ("random_pdf_normal",)
    arguments = ("sample", "mu", "sigma")
    log_density = staticmethod(_normal)


class PdfExponential(Density):
    """lam·exp(−lam·x)."""

    name = "_random_pdf_exponential"
    aliases = ("random_pdf_exponential",)
    arguments = ("sample", "lam")
    log_density = staticmethod(_exponential)


class PdfGamma(Density):
    """beta^alpha·x^(alpha − 1)·exp(−beta·x)/Γ(alpha)."""

    name = "_random_pdf_gamma"
    aliases = ("random_pdf_gamma",)
    arguments = ("sample", "alpha", "beta")
    log_density = staticmethod(_gamma)


class PdfPoisson(Density):
    """exp(−lam)·lam^x/x!."""

    name = "_random_pdf_poisson"
    custom_gradient = ("sample",)  # which is an integer: zeros
    aliases = ("random_pdf_poisson",)
    arguments = ("sample", "lam")
    log_density = staticmethod(_poisson)
    discrete = True


class PdfNegativeBinomial(Density):
    """Γ(x + k)/(x! Γ(k))·p^k·(1 − p)^x."""

    name = "_random_pdf_negative_binomial"
    custom_gradient = ("sample",)  # which is an integer: zeros
    aliases = ("random_pdf_negative_binomial",)
    arguments = ("sample", "k", "p")
    log_density = staticmethod(_negative_binomial)
    discrete = True


class PdfGeneralizedNegativeBinomial(Density):
    """The negative binomial with k = 1/alpha and p = 1/(mu·alpha + 1)."""

    name = "_random_pdf_generalized_negative_binomial"
    custom_gradient = ("sample",)  # which is an integer: zeros
    aliases = ("random_pdf_generalized_negative_binomial",)
    arguments = ("sample", "mu", "alpha")
    log_density = staticmethod(_generalized)
    discrete = True


class PdfDirichlet(Density):
    """Γ(Σalpha)/ΠΓ(alpha)·Πx^(alpha − 1) over the last axis of alpha S + (K,) and samples S + T + (K,)."""

    name = "_random_pdf_dirichlet"
    aliases = ("random_pdf_dirichlet",)
    arguments = ("sample", "alpha")
    log_density = staticmethod(_dirichlet_part)
    event = 1

    def logarithm(self, spread: Sequence[Any]) -> Any:
        """Σ over the last axis, and the normalisation."""
        return super().logarithm(spread).sum(-1) + _apply(X.gammaln, spread[1].sum(-1))

    def slopes(self, spread: Sequence[Any], g: Any) -> Sequence[Any]:
        """Those of the sum, and of the normalisation."""
        sample, alpha = super().slopes(spread, np.broadcast_to(g[..., None], spread[0].shape))
        return sample, alpha + g[..., None] * _apply(X.digamma, spread[1].sum(-1, keepdims=True))


def _apply(function: Callable[..., Any], x: Any) -> Any:
    return X.evaluate(X.trace(function, 1), [x])[0]
