# SPDX-License-Identifier: Apache-2.0
"""The Poisson distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import NonNegativeInteger, Positive
from mx_gluon.probability.distributions.exp_family import ExponentialFamily
from mx_gluon.probability.values import Value, gammaln, log, poisson, x_log_y


class Poisson(ExponentialFamily):
    """The Poisson distribution, of counts.

    Threads: as `Distribution`.

    Parameters
    ----------
    rate : number, NDArray or Symbol
        Mean and variance.
    """

    support = NonNegativeInteger()
    arg_constraints = {"rate": Positive()}

    def __init__(self, rate: Any = 1.0, F: Any = None, validate_args: bool | None = None) -> None:
        self.rate = rate
        super().__init__(F, 0, validate_args)

    def _log_prob(self, x: Value) -> Value:
        return x_log_y(x, self.rate) - Value(self.rate) - gammaln(x + 1)

    def _mean(self) -> Value:
        return Value(self.rate)

    def _variance(self) -> Value:
        return Value(self.rate)

    def _draw(self, zeros: Value) -> Value:
        return poisson(self.rate, zeros)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (log(self.rate).raw,)
