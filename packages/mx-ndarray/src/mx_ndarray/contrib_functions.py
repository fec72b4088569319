# SPDX-License-Identifier: Apache-2.0
"""Functions of `nd.contrib` that gather lists of arrays for one operator, or put operators together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_ndarray import random
from mx_ndarray.creation import full
from mx_ndarray.ndarray import NDArray
from mx_ndarray.operator_functions import function, several

Arrays = Sequence[NDArray]
Out = NDArray | list[NDArray] | None


def _interleaved(name: str, *groups: Arrays) -> list[NDArray]:
    """First of every group, second of every group, …: the order multi-tensor operators take."""
    lengths = [len(group) for group in groups]
    if not lengths[0] or len(set(lengths)) > 1:
        raise ArgumentError(f"{name}: expected lists of one length of at least 1, got lengths {lengths}")
    return list(chain.from_iterable(zip(*groups, strict=True)))


def _scale(rescale_grad: float | NDArray, like: NDArray) -> NDArray:
    if isinstance(rescale_grad, NDArray):
        return rescale_grad.as_in_context(like.context)
    return full((1,), rescale_grad, like.context)


def adamw_update(
    weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray,
    rescale_grad: float | NDArray, lr: float, eta: float, **settings: Any,
) -> NDArray:  # fmt: skip
    """One AdamW step; the step is left out where `rescale_grad` is not finite or is 0.

    Source: Loshchilov, Hutter, Decoupled Weight Decay Regularization, ICLR 2019.
    """
    step = function("_adamw_update")
    return step(weight, grad, mean, var, _scale(rescale_grad, weight), lr=lr, eta=eta, **settings)


def mp_adamw_update(
    weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, weight32: NDArray,
    rescale_grad: float | NDArray, lr: float, eta: float, **settings: Any,
) -> NDArray:  # fmt: skip
    """`adamw_update` of a 16-bit weight with its float32 master copy `weight32`."""
    step = function("_mp_adamw_update")
    return step(weight, grad, mean, var, weight32, _scale(rescale_grad, weight), lr=lr, eta=eta, **settings)


def multi_adamw_update(
    weights: Arrays, grads: Arrays, mean: Arrays, var: Arrays, rescale_grad: float | NDArray,
    lrs: Sequence[float], wds: Sequence[float], etas: Sequence[float],
    out: Out = None, size: int = 0, **settings: Any,
) -> NDArray | list[NDArray]:  # fmt: skip
    """`adamw_update` of several weights in one operation; `size` is their number, by default all."""
    arrays = _interleaved("multi_adamw_update", weights, grads, mean, var)
    return several("_multi_adamw_update")(
        *arrays, _scale(rescale_grad, weights[0]), out=out,
        num_weights=size or len(weights), lrs=lrs, wds=wds, etas=etas, **settings,
    )  # fmt: skip


def multi_mp_adamw_update(
    weights: Arrays, grads: Arrays, mean: Arrays, var: Arrays, weights32: Arrays, rescale_grad: float | NDArray,
    lrs: Sequence[float], wds: Sequence[float], etas: Sequence[float],
    out: Out = None, size: int = 0, **settings: Any,
) -> NDArray | list[NDArray]:  # fmt: skip
    """`mp_adamw_update` of several weights in one operation."""
    arrays = _interleaved("multi_mp_adamw_update", weights, grads, mean, var, weights32)
    return several("_multi_mp_adamw_update")(
        *arrays, _scale(rescale_grad, weights[0]), out=out,
        num_weights=size or len(weights), lrs=lrs, wds=wds, etas=etas, **settings,
    )  # fmt: skip


def multi_lamb_update(
    weights: Arrays, grads: Arrays, mean: Arrays, var: Arrays, step_count: Sequence[int],
    lrs: Sequence[float], wds: Sequence[float], out: Out = None, num_tensors: int = 0, **settings: Any,
) -> NDArray | list[NDArray]:  # fmt: skip
    """One LAMB step of several weights; `step_count` numbers the step of each from 1.

    Source: You et al., Large Batch Optimization for Deep Learning, ICLR 2020.
    """
    return several("_multi_lamb_update")(
        *_interleaved("multi_lamb_update", weights, grads, mean, var), out=out,
        num_tensors=num_tensors or len(weights), step_count=step_count, learning_rates=lrs, wds=wds, **settings,
    )  # fmt: skip


def multi_mp_lamb_update(
    weights: Arrays, grads: Arrays, mean: Arrays, var: Arrays, weights32: Arrays, step_count: Sequence[int],
    lrs: Sequence[float], wds: Sequence[float], out: Out = None, num_tensors: int = 0, **settings: Any,
) -> NDArray | list[NDArray]:  # fmt: skip
    """`multi_lamb_update` of 16-bit weights with their float32 master copies."""
    return several("_multi_mp_lamb_update")(
        *_interleaved("multi_mp_lamb_update", weights, grads, mean, var, weights32), out=out,
        num_tensors=num_tensors or len(weights), step_count=step_count, learning_rates=lrs, wds=wds, **settings,
    )  # fmt: skip


def rand_zipfian(
    true_classes: NDArray, num_sampled: int, range_max: int, ctx: Context | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """Candidates drawn with P(k) = log((k + 2) / (k + 1)) / log(range_max + 1), for sampled softmax.

    Parameters
    ----------
    true_classes : classes of the batch, of any shape
    num_sampled : how many candidates to draw, with replacement
    range_max : the number of classes; candidates lie in [0, range_max)

    Returns
    -------
    candidates (num_sampled,) int64, and how often each true class and each candidate is expected
    among them, float64
    """
    if range_max < 1 or num_sampled < 1:
        raise ArgumentError(
            f"rand_zipfian: num_sampled and range_max must be at least 1, got {num_sampled} and {range_max}"
        )
    ctx = ctx or true_classes.context
    span = math.log(range_max + 1)
    drawn = random.uniform(0, span, shape=(num_sampled,), dtype="float64", ctx=ctx)
    candidates = (drawn.exp() - 1).astype("int64") % range_max

    def expected(classes: NDArray) -> NDArray:
        wide = classes.as_in_context(ctx).astype("float64")
        return ((wide + 2.0) / (wide + 1.0)).log() / span * num_sampled

    return candidates, expected(true_classes), expected(candidates)
