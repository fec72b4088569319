# SPDX-License-Identifier: Apache-2.0
"""The multivariate normal distribution."""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.probability.constraint import LowerCholesky, PositiveDefinite, Real
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.utils import cached_property
from mx_gluon.probability.values import HALF_LOG_2PI, Value, log, namespace, normal


class MultivariateNormal(Distribution):
    """The normal distribution of vectors.

    Threads: as `Distribution`.

    Parameters
    ----------
    loc : NDArray or Symbol of shape (..., K)
        Mean.
    cov : NDArray or Symbol of shape (..., K, K)
        Covariance. Exactly one of the three matrices is given.
    precision : NDArray or Symbol of shape (..., K, K)
        Inverse of the covariance.
    scale_tril : NDArray or Symbol of shape (..., K, K)
        Lower triangular factor L of the covariance L L^T.
    """

    has_grad = True
    support = Real()
    arg_constraints = {
        "loc": Real(),
        "cov": PositiveDefinite(),
        "precision": PositiveDefinite(),
        "scale_tril": LowerCholesky(),
    }
    _event_axes = 1

    def __init__(
        self,
        loc: Any,
        cov: Any = None,
        precision: Any = None,
        scale_tril: Any = None,
        F: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {"cov": cov, "precision": precision, "scale_tril": scale_tril}
        names = [name for name, matrix in given.items() if matrix is not None]
        if len(names) != 1:
            raise ArgumentError(
                f"[MultivariateNormal] expected one of cov, precision and scale_tril, got {names or 'none of them'}"
            )
        self.loc = loc
        setattr(self, names[0], given[names[0]])
        super().__init__(F, 1, validate_args)

    def _linalg(self, name: str, *args: Any, **options: Any) -> Any:
        return getattr(namespace(args[0]).linalg, name)(*args, **options)

    @cached_property
    def scale_tril(self) -> Any:
        """The lower triangular factor of the covariance."""
        return self._linalg("potrf", self.cov)

    @cached_property
    def cov(self) -> Any:
        """The covariance."""
        if "scale_tril" in self.__dict__:
            return self._linalg("gemm2", self.scale_tril, self.scale_tril, transpose_b=True)
        return self._linalg("potri", self._linalg("potrf", self.precision))

    @cached_property
    def precision(self) -> Any:
        """The inverse of the covariance."""
        return self._linalg("potri", self.scale_tril)

    @property
    def _inverse_tril(self) -> Value:
        """The inverse of `scale_tril`."""
        tril = self.scale_tril
        diagonal = self._linalg("extractdiag", tril)
        identity = self._linalg("makediag", Value(diagonal).ones().raw)
        return Value(self._linalg("trsm", tril, identity))

    def _log_diagonal(self) -> Value:
        return log(self._linalg("extractdiag", self.scale_tril))

    def _zeros(self) -> Value:
        found = Value(self.loc).zeros()
        for name, param in self._given().items():
            found = found if name == "loc" else found + Value(param).zeros().sum(-1)
        return found

    def _axes_of(self, name: str) -> int:
        return 1 if name == "loc" else 2

    def _log_prob(self, x: Value) -> Value:
        difference = x - Value(self.loc)
        inverse = self._inverse_tril
        log_diagonal = log(self._linalg("extractdiag", inverse.raw))
        whitened = (inverse * difference.expanded(-2)).sum(-1)
        return (whitened**2 * -0.5 + log_diagonal - HALF_LOG_2PI).sum(-1)

    def _entropy(self) -> Value:
        return (self._log_diagonal() + Value(self.loc).zeros() + (0.5 + HALF_LOG_2PI)).sum(-1)

    def _mean(self) -> Value:
        return Value(self.loc)

    def _variance(self) -> Value:
        return (Value(self.scale_tril) ** 2).sum(-1)

    def _draw(self, zeros: Value) -> Value:
        noise = normal(zeros).expanded(-2)
        return Value(self.loc) + (Value(self.scale_tril) * noise).sum(-1)
