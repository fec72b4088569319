# SPDX-License-Identifier: Apache-2.0
"""Functions that are not operators themselves: they choose an operator, or combine several."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol


def histogram(
    a: Symbol, bins: int | Symbol = 10, range: tuple[float, float] | None = None, **kwargs: Any
) -> Symbol:
    """Counts and edges of a histogram.

    Parameters
    ----------
    bins : the edges, or how many bins of one width there are in `range`
    range : lowest and highest edge

    Raises
    ------
    ArgumentError  a number of bins without a range
    """
    from mx_symbol.symbol import Symbol
    from mx_symbol.symbol.functions import call

    if isinstance(bins, Symbol):
        return call("_histogram", a, bins, **kwargs)
    if isinstance(bins, bool) or not isinstance(bins, int):
        raise ArgumentError(f"[histogram] bins: expected a number or a symbol, got {bins!r}")
    if range is None:
        raise ArgumentError("[histogram] range: expected two numbers, since bins is a number")
    return call("_histogram", a, bin_cnt=bins, range=range, **kwargs)


def rand_zipfian(true_classes: Symbol, num_sampled: int, range_max: int) -> tuple[Symbol, Symbol, Symbol]:
    """Candidates drawn with P(k) = log((k + 2) / (k + 1)) / log(range_max + 1), for sampled softmax.

    Parameters
    ----------
    true_classes : classes of the batch, of any shape
    num_sampled : how many candidates to draw, with replacement
    range_max : the number of classes; candidates lie in [0, range_max)

    Returns
    -------
    candidates (num_sampled,) int64, and how often each true class and each candidate is expected among them,
    float64
    """
    from mx_symbol.symbol.functions import call

    if range_max < 1 or num_sampled < 1:
        raise ArgumentError(
            f"[rand_zipfian] num_sampled and range_max: expected at least 1, got {num_sampled} and {range_max}"
        )
    span = math.log(range_max + 1)
    drawn = call("_random_uniform", low=0.0, high=span, shape=(num_sampled,), dtype="float64")
    candidates = call("cast", call("exp", drawn) - 1.0, dtype="int64") % range_max

    def expected(classes: Symbol) -> Symbol:
        wide = call("cast", classes, dtype="float64")
        return call("log", (wide + 2.0) / (wide + 1.0)) / span * num_sampled

    return candidates, expected(true_classes), expected(candidates)
