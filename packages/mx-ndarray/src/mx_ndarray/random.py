# SPDX-License-Identifier: Apache-2.0
"""Random arrays and their seed.

Numbers come from counter-based streams (Philox 4×32-10), one per context: equal seeds give equal
arrays with any number of threads. Each function takes numbers, which give one array of
`shape`, or arrays of parameters, which give `shape` numbers per parameter.
"""

from __future__ import annotations

from math import inf
from typing import Any

from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_ndarray.ndarray import NDArray
from mx_ndarray.operator_functions import function, served_natively, several
from mx_ndarray.random_state import get_state as get_state
from mx_ndarray.random_state import seed as seed
from mx_ndarray.random_state import set_state as set_state

#: a parameter: one for the whole result, or an array with one for each of its elements
Number = float | NDArray
ShapeLike = int | tuple[int, ...] | list[int] | None


def _draw(
    name: str,
    parameters: dict[str, Any],
    shape: ShapeLike,
    dtype: Any,
    ctx: Context | None,
    out: NDArray | None,
    kwargs: dict[str, Any],
) -> NDArray:
    settings = dict(kwargs)
    if dtype is not None:
        settings["dtype"] = dtype
    if out is not None:
        settings["out"] = out
    arrays = [value for value in parameters.values() if isinstance(value, NDArray)]
    if arrays:
        if len(arrays) != len(parameters):
            raise ArgumentError(f"[random] {', '.join(parameters)}: expected all numbers or all arrays")
        if shape is not None:
            settings["shape"] = shape
        return function("_sample_" + name)(*arrays, **settings)
    if shape is not None:
        settings["shape"] = shape
    elif out is not None:
        settings["shape"] = out.shape
    else:
        settings["shape"] = (1,)
    if ctx is not None:
        settings["ctx"] = ctx
    return function("_random_" + name)(**parameters, **settings)


@served_natively
def uniform(
    low: Number = 0, high: Number = 1, shape: ShapeLike = None, dtype: Any = None,
    ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any,
) -> NDArray:  # fmt: skip
    """Uniform on [low, high)."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)


@served_natively
def normal(
    loc: Number = 0, scale: Number = 1, shape: ShapeLike = None, dtype: Any = None,
    ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any,
) -> NDArray:  # fmt: skip
    """Normal with mean `loc` and standard deviation `scale`."""
    names = ("mu", "sigma") if isinstance(loc, NDArray) else ("loc", "scale")
    return _draw("normal", dict(zip(names, (loc, scale), strict=True)), shape, dtype, ctx, out, kwargs)


def randn(*shape: int, loc: Number = 0, scale: Number = 1, **kwargs: Any) -> NDArray:
    """Normal, with the shape given as arguments."""
    return normal(loc, scale, shape or None, **kwargs)


def poisson(
    lam: Number = 1, shape: ShapeLike = None, dtype: Any = None,
    ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any,
) -> NDArray:  # fmt: skip
    """Poisson with mean `lam`."""
    return _draw("poisson", {"lam": lam}, shape, dtype, ctx, out, kwargs)


def exponential(
    scale: Number = 1, shape: ShapeLike = None, dtype: Any = None,
    ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any,
) -> NDArray:  # fmt: skip
    """Exponential with mean `scale`, above 0."""
    if not isinstance(scale, NDArray) and not 0 < scale < inf:
        raise ArgumentError(f"[random.exponential] scale: expected a finite number above 0, got {scale!r}")
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, kwargs)


def gamma(
    alpha: Number = 1, beta: Number = 1, shape: ShapeLike = None, dtype: Any = None,
    ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any,
) -> NDArray:  # fmt: skip
    """Gamma with shape `alpha` and scale `beta`."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, kwargs)


def negative_binomial(
    k: Number = 1, p: Number = 1, shape: ShapeLike = None, dtype: Any = None,
    ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any,
) -> NDArray:  # fmt: skip
    """Failures before `k` successes of probability `p`."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out, kwargs)


def generalized_negative_binomial(
    mu: Number = 1, alpha: Number = 1, shape: ShapeLike = None, dtype: Any = None,
    ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any,
) -> NDArray:  # fmt: skip
    """Negative binomial with mean `mu` and dispersion `alpha`."""
    parameters = {"mu": mu, "alpha": alpha}
    return _draw("generalized_negative_binomial", parameters, shape, dtype, ctx, out, kwargs)


def multinomial(
    data: NDArray, shape: ShapeLike = None, get_prob: bool = False,
    out: NDArray | list[NDArray] | None = None, dtype: Any = "int32", **kwargs: Any,
) -> NDArray | list[NDArray]:  # fmt: skip
    """Indices drawn with the probabilities in the last axis of `data`; with `get_prob`, also their logarithms.

    Raises
    ------
    ArgumentError  later, as of any operator: a probability is negative or not finite, or all of a row are 0
    """
    settings = {**kwargs, "get_prob": get_prob, "dtype": dtype}
    if shape is not None:
        settings["shape"] = shape
    return several("_sample_multinomial")(data, out=out, **settings)


def randint(
    low: int, high: int, shape: ShapeLike = None, dtype: Any = None,
    ctx: Context | None = None, out: NDArray | None = None, **kwargs: Any,
) -> NDArray:  # fmt: skip
    """Integers uniform on [low, high), which must be in the range of `dtype` (int32 or int64)."""
    return _draw("randint", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)


def shuffle(data: NDArray, **kwargs: Any) -> NDArray:
    """The rows of `data` in random order."""
    return function("_shuffle")(data, **kwargs)


def uniform_like(data: NDArray, low: float = 0, high: float = 1, **kwargs: Any) -> NDArray:
    """Uniform, of the shape, type and context of `data`."""
    return function("_random_uniform_like")(data, low=low, high=high, **kwargs)


def normal_like(data: NDArray, loc: float = 0, scale: float = 1, **kwargs: Any) -> NDArray:
    """Normal, of the shape, type and context of `data`."""
    return function("_random_normal_like")(data, loc=loc, scale=scale, **kwargs)


def poisson_like(data: NDArray, lam: float = 1, **kwargs: Any) -> NDArray:
    """Poisson, of the shape, type and context of `data`."""
    return function("_random_poisson_like")(data, lam=lam, **kwargs)


def exponential_like(data: NDArray, lam: float = 1, **kwargs: Any) -> NDArray:
    """Exponential with rate `lam`, of the shape, type and context of `data`."""
    return function("_random_exponential_like")(data, lam=lam, **kwargs)


def gamma_like(data: NDArray, alpha: float = 1, beta: float = 1, **kwargs: Any) -> NDArray:
    """Gamma, of the shape, type and context of `data`."""
    return function("_random_gamma_like")(data, alpha=alpha, beta=beta, **kwargs)


def negative_binomial_like(data: NDArray, k: int = 1, p: float = 1, **kwargs: Any) -> NDArray:
    """Negative binomial, of the shape, type and context of `data`."""
    return function("_random_negative_binomial_like")(data, k=k, p=p, **kwargs)


def generalized_negative_binomial_like(
    data: NDArray, mu: float = 1, alpha: float = 1, **kwargs: Any
) -> NDArray:
    """Generalised negative binomial, of the shape, type and context of `data`."""
    name = "_random_generalized_negative_binomial_like"
    return function(name)(data, mu=mu, alpha=alpha, **kwargs)
