# SPDX-License-Identifier: Apache-2.0
"""Random symbols: parameters are numbers, or symbols that give one distribution per element."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from mx_core.errors import ArgumentError
from mx_symbol.symbol import Symbol
from mx_symbol.symbol.namespaces import Lookup, namespace

__getattr__: Lookup
__getattr__, __dir__ = namespace(
    __name__,
    "random",
    (
        "uniform", "normal", "randn", "gamma", "poisson", "exponential", "randint", "negative_binomial",
        "generalized_negative_binomial", "multinomial", "shuffle",
    ),
)  # fmt: skip


def _draw(
    distribution: str, values: dict[str, Any], shape: Sequence[int] | int | None, dtype: Any, extra: Any
) -> Symbol:
    from mx_symbol.symbol.functions import call

    if dtype is not None:
        extra = {**extra, "dtype": dtype}
    if shape is not None:  # files show what was given
        extra = {**extra, "shape": shape}
    symbols = [isinstance(value, Symbol) for value in values.values()]
    if all(symbols):
        return call(f"_sample_{distribution}", *values.values(), **extra)
    if any(symbols):
        raise ArgumentError(f"[{distribution}] give {', '.join(values)} all as symbols or all as numbers")
    return call(f"_random_{distribution}", **values, **extra)


def uniform(
    low: Any = 0, high: Any = 1, shape: Sequence[int] | int | None = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Uniform on [low, high)."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, kwargs)


def normal(
    loc: Any = 0, scale: Any = 1, shape: Sequence[int] | int | None = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Normal with mean `loc` and standard deviation `scale`."""
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, kwargs)


def randn(*shape: int, loc: Any = 0, scale: Any = 1, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Normal of the shape the positional arguments give."""
    return normal(loc, scale, shape, dtype, **kwargs)


def gamma(
    alpha: Any = 1, beta: Any = 1, shape: Sequence[int] | int | None = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Gamma with shape alpha and scale beta."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kwargs)


def poisson(
    lam: Any = 1, shape: Sequence[int] | int | None = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Poisson with rate lam."""
    return _draw("poisson", {"lam": lam}, shape, dtype, kwargs)


def exponential(
    scale: Any = 1, shape: Sequence[int] | int | None = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Exponential with mean `scale`, above 0."""
    if not isinstance(scale, Symbol) and not 0 < scale < inf:
        raise ArgumentError(f"[random.exponential] scale: expected a finite number above 0, got {scale!r}")
    rate = 1.0 / scale
    return _draw("exponential", {"lam": rate}, shape, dtype, kwargs)


def randint(
    low: int, high: int, shape: Sequence[int] | int | None = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Integers of [low, high)."""
    return _draw("randint", {"low": low, "high": high}, shape, dtype, kwargs)


def negative_binomial(
    k: Any = 1, p: Any = 1, shape: Sequence[int] | int | None = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Failures before `k` successes of probability `p`."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, kwargs)


def generalized_negative_binomial(
    mu: Any = 1, alpha: Any = 1, shape: Sequence[int] | int | None = None, dtype: Any = None, **kwargs: Any
) -> Symbol:
    """Negative binomial with mean `mu` and dispersion `alpha`."""
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, kwargs)


def multinomial(
    data: Symbol,
    shape: Sequence[int] | int | None = None,
    get_prob: bool = True,
    dtype: Any = "int32",
    **kwargs: Any,
) -> Symbol:
    """Indices drawn with the probabilities in the last axis of `data`; with `get_prob` their log-likelihoods too."""
    from mx_symbol.symbol.functions import call

    settings = kwargs if shape is None else {**kwargs, "shape": shape}
    return call("_sample_multinomial", data, get_prob=get_prob, dtype=dtype, **settings)


def shuffle(data: Symbol, **kwargs: Any) -> Symbol:
    """The rows of `data` in random order."""
    from mx_symbol.symbol.functions import call

    return call("_shuffle", data, **kwargs)
