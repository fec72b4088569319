# SPDX-License-Identifier: Apache-2.0
"""The exponential distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import NonNegative, Positive
from mx_gluon.probability.distributions.exp_family import ExponentialFamily
from mx_gluon.probability.values import Value, expm1, exponential, log, log1p


class Exponential(ExponentialFamily):
    """The exponential distribution.

    Threads: as `Distribution`.

    Parameters
    ----------
    scale : number, NDArray or Symbol
        Mean.
    """

    has_grad = True
    support = NonNegative()
    arg_constraints = {"scale": Positive()}

    def __init__(self, scale: Any = 1.0, F: Any = None, validate_args: bool | None = None) -> None:
        self.scale = scale
        super().__init__(F, 0, validate_args)

    def _log_prob(self, x: Value) -> Value:
        scale = Value(self.scale)
        return -x / scale - log(scale)

    def _cdf(self, x: Value) -> Value:
        return -expm1(-x / Value(self.scale))

    def _icdf(self, p: Value) -> Value:
        return -Value(self.scale) * log1p(-p)

    def _entropy(self) -> Value:
        return log(self.scale) + 1

    def _mean(self) -> Value:
        return Value(self.scale)

    def _variance(self) -> Value:
        return Value(self.scale) ** 2

    def _draw(self, zeros: Value) -> Value:
        return Value(self.scale) * exponential(zeros)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return ((-1 / Value(self.scale)).raw,)
