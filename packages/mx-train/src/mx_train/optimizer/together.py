# SPDX-License-Identifier: Apache-2.0
"""Steps of many weights by one operator, whose rates and decays are arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from mx_core import dtypes
from mx_ndarray import NDArray, nd
from mx_ndarray.several import are_alike

if TYPE_CHECKING:
    from mx_train.optimizer.base import Index, Optimizer

_FLOAT = dtypes.code("float32")
#: weights of one operator: more arrays than an operator takes would come together
_MOST = 64


def alike(weights: Sequence[NDArray], grads: Sequence[NDArray]) -> bool:
    """Whether there are several, all of them float32 on one context."""
    return len(weights) > 1 and weights[0]._dtype_code == _FLOAT and are_alike([*weights, *grads])


def step(
    operator: Callable[..., Any],
    optimizer: Optimizer,
    arrays: Sequence[tuple[NDArray, ...]],
    rates: Sequence[float],
    decays: Sequence[float],
    **settings: float,
) -> None:
    """Starts the steps; asynchronous.

    Parameters
    ----------
    operator : function of `mx_ndarray.nd`
        Takes all weights with what belongs to them, then rates and decays.
    arrays : sequence of (weight, gradient, states...)
    """
    settings["rescale_grad"] = optimizer.rescale_grad
    if optimizer.clip_gradient:  # as in MXNet, 0 is no limit where one operator does the update
        settings["clip_gradient"] = optimizer.clip_gradient
    context = arrays[0][0].context
    parts = [slice(begin, begin + _MOST) for begin in range(0, len(arrays), _MOST)]
    # All of them before the first step: it is taken as a whole, or not for want of memory.
    made = [[nd.array(each[part], context, "float32") for each in (rates, decays)] for part in parts]
    for part, numbers in zip(parts, made, strict=True):
        some = arrays[part]
        operator(
            *chain.from_iterable(some),
            *numbers,
            out=[each[0] for each in some],
            num_weights=len(some),
            **settings,
        )


def numbers(rates: Sequence[float], decays: Sequence[float]) -> np.ndarray[Any, Any]:
    """What the arrays hold that `step` makes of them, one after another: float32, two of each weight."""
    begins = range(0, len(rates), _MOST)
    parts = [each[begin : begin + _MOST] for begin in begins for each in (rates, decays)]
    return np.concatenate(parts).astype(np.float32)


def rates_and_decays(optimizer: Optimizer, indices: Sequence[Index]) -> tuple[list[float], list[float]]:
    """Counts an update of each weight; its rate and its decay."""
    optimizer._update_count(indices)
    rate, decay = optimizer.learning_rate, optimizer.wd
    return (
        [rate * factor for factor in optimizer._mults(indices, optimizer.lr_mult, "lr_mult")],
        [decay * factor for factor in optimizer._mults(indices, optimizer.wd_mult, "wd_mult")],
    )
