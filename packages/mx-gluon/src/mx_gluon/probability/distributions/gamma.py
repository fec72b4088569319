# SPDX-License-Identifier: Apache-2.0
"""The gamma distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import Positive
from mx_gluon.probability.distributions.exp_family import ExponentialFamily
from mx_gluon.probability.values import Value, digamma, gamma, gammaln, log


class Gamma(ExponentialFamily):
    """The gamma distribution.

    Threads: as `Distribution`.

    Parameters
    ----------
    shape : number, NDArray or Symbol
        The exponent.
    scale : number, NDArray or Symbol
        The mean divided by `shape`.
    """

    support = Positive()
    arg_constraints = {"shape": Positive(), "scale": Positive()}

    def __init__(
        self, shape: Any, scale: Any = 1.0, F: Any = None, validate_args: bool | None = None
    ) -> None:
        self.shape = shape
        self.scale = scale
        super().__init__(F, 0, validate_args)

    def _log_prob(self, x: Value) -> Value:
        shape, scale = self._values("shape", "scale")
        return (shape - 1) * log(x) - x / scale - gammaln(shape) - shape * log(scale)

    def _entropy(self) -> Value:
        shape, scale = self._values("shape", "scale")
        return shape + log(scale) + gammaln(shape) + (1 - shape) * digamma(shape)

    def _mean(self) -> Value:
        shape, scale = self._values("shape", "scale")
        return shape * scale

    def _variance(self) -> Value:
        shape, scale = self._values("shape", "scale")
        return shape * scale**2

    def _draw(self, zeros: Value) -> Value:
        shape, scale = self._values("shape", "scale")
        return gamma(shape, zeros) * scale

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        shape, scale = self._values("shape", "scale")
        return (shape - 1).raw, (-1 / scale).raw
