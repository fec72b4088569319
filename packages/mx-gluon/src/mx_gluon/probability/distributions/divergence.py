# SPDX-License-Identifier: Apache-2.0
"""Kullback-Leibler divergences: functions by two classes, and an estimate from samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.values import Value, as_type, namespace

Divergence = Callable[[Any, Any], Any]
_divergences: dict[tuple[type, type], Divergence] = {}


def register_kl(typeP: type, typeQ: type) -> Callable[[Divergence], Divergence]:
    """A decorator for a function of (p, q) that computes KL(p || q) for these classes and those derived from them.

    Threads: register from one.

    Raises
    ------
    ArgumentError  something is no class of distributions, the function has not two parameters, or the pair has one

    Examples
    --------
    >>> @register_kl(Mine, Normal)
    ... def kl_mine_normal(p, q): ...
    """
    for kind in (typeP, typeQ):
        if not isinstance(kind, type) or not issubclass(kind, Distribution):
            raise ArgumentError(f"[register_kl] expected a class of distributions, got {kind!r}")

    def decorator(function: Divergence) -> Divergence:
        count = len(inspect.signature(function).parameters)
        if count != 2:
            raise ArgumentError(
                f"[register_kl] expected a function of two parameters, p and q, got {count}: {function!r}"
            )
        if (typeP, typeQ) in _divergences:
            raise ArgumentError(
                f"[register_kl] {typeP.__name__} and {typeQ.__name__} have {_divergences[typeP, typeQ]!r} already"
            )
        _divergences[typeP, typeQ] = function
        return function

    return decorator


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """KL(p || q), the mean of log p(x) - log q(x) over outcomes x of p.

    The function is that of the nearest pair of classes from which those of p and q are derived.

    Raises
    ------
    NotImplementedError  there is no formula for them; `empirical_kl` estimates it

    Examples
    --------
    >>> kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0))
    0.5
    """
    for kind_p in type(p).__mro__:
        for kind_q in type(q).__mro__:
            found = _divergences.get((kind_p, kind_q))
            if found is not None:
                return _computed(found, p, q)
    raise NotImplementedError(
        f"[kl_divergence] there is no formula for {type(p).__name__} and {type(q).__name__}; "
        "register_kl adds one, empirical_kl estimates it from samples"
    )


def _computed(function: Divergence, p: Distribution, q: Distribution) -> Any:
    """The divergence of parameters of 16 bits in float32, rounded to their type."""
    wide = [p._wide(), q._wide()] if p._computes_wide and q._computes_wide else [p, q]
    if wide[0] is p and wide[1] is q:
        return function(p, q)
    like = q._like() if p._like().is_number else p._like()
    return as_type(Value(function(*wide)), like).raw


def empirical_kl(p: Distribution, q: Distribution, n_samples: int = 1) -> Any:
    """An estimate of KL(p || q): the mean of log p(x) - log q(x) over `n_samples` outcomes x of p."""
    samples = p.sample_n(n_samples)
    ratio = Value(p.log_prob(samples)) - q.log_prob(samples)
    return namespace(ratio.raw).mean(ratio.raw, axis=0)
