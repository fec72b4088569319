# SPDX-License-Identifier: Apache-2.0
"""Whether a metric's value is better than another: larger or smaller."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable

from mx_train.metric import EvalMetric

Better = Callable[[float, float], bool]


def better(mode: str, monitor: EvalMetric, handler: str) -> Better:
    """`operator.gt` or `operator.lt`.

    Parameters
    ----------
    mode : {"auto", "min", "max"}
        "auto": a larger accuracy or F1 score is better, and a smaller value of anything else. It warns, since that
        is a guess. Another word warns, too, and is taken for "auto".
    monitor : EvalMetric
    handler : str
        For warnings.
    """
    if mode in ("min", "max"):
        return operator.lt if mode == "min" else operator.gt
    name = str(monitor.get()[0])
    larger = any(part in name.lower() for part in ("acc", "f1"))
    text = f"[{handler}] mode: {'larger' if larger else 'smaller'} values of {name!r} are taken for better"
    if mode != "auto":
        text = (
            f'[{handler}] mode: expected "auto", "min" or "max", got {mode!r}; {text.partition("mode: ")[2]}'
        )
    warnings.warn(f'{text}; give "{"max" if larger else "min"}" to say so', RuntimeWarning, stacklevel=3)
    return operator.gt if larger else operator.lt


def worst(comparison: Better) -> float:
    """The value that each one is better than."""
    return -math.inf if comparison is operator.gt else math.inf
