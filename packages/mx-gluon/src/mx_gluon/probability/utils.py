# SPDX-License-Identifier: Apache-2.0
"""What distributions and programs share: probabilities and log-odds, attributes that are computed on demand."""

from __future__ import annotations

from typing import Any

from mx_core import cached
from mx_core.errors import ArgumentError
from mx_gluon.probability.values import Value, exp, log, log1p, log_softmax, sigmoid
from mx_ndarray import NDArray, nd
from mx_symbol import sym
from mx_symbol.symbol import Symbol


def getF(*params: Any) -> Any:
    """`mx_symbol.sym` if a parameter is a symbol, `mx_ndarray.nd` otherwise.

    Raises
    ------
    ArgumentError  NDArrays and symbols are mixed
    """
    symbols = any(isinstance(each, Symbol) for each in params)
    if symbols and any(isinstance(each, NDArray) for each in params):
        raise ArgumentError(
            f"[probability] NDArrays and symbols are mixed: {', '.join(type(each).__name__ for each in params)}"
        )
    return sym if symbols else nd


def prob2logit(prob: Any, binary: bool = True, F: Any = None) -> Any:
    """Log-odds log(p / (1 - p)) of probabilities, or log(p) where `binary` is False. `F` is not needed."""
    p = Value(prob)
    return (log(p) - log1p(-p)).raw if binary else log(p).raw


def logit2prob(logit: Any, binary: bool = True, F: Any = None) -> Any:
    """Probabilities of log-odds, by softmax along the last axis where `binary` is False. `F` is not needed."""
    x = Value(logit)
    return sigmoid(x).raw if binary else exp(log_softmax(x)).raw


class cached_property(cached.cached_property[Any]):
    """A property that is kept as an attribute after its first use, if it is no NDArray and has none.

    Arrays are computed anew each time: a later write to the arrays from which they come changes them, and what was
    computed outside of `record` has no gradient.

    Threads: as the object that has it; two may compute it at the same time.
    """

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = self._compute(instance)
        if not _has_arrays(value):
            instance.__dict__[self._name] = value
        return value


def _has_arrays(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_arrays, value))
    return isinstance(value, NDArray)
