# SPDX-License-Identifier: Apache-2.0
"""SGD for large batches, and a former name of SGD."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd
from mx_train.optimizer.base import Index, State
from mx_train.optimizer.gradient_descent import SGD

#: how far the rate has grown after a share of the warm-up
_GROWTH: dict[str, Callable[[float], float]] = {
    "linear": lambda share: share,
    "power2": lambda share: share * share,
    "sqrt": math.sqrt,
}


class LBSGD(SGD):
    """SGD that gathers the gradients of several batches before a step, with a larger rate after a warm-up.

    Every `batch_scale` gradients of a parameter their mean makes a step. The rate grows from that of one batch to
    `batch_scale` times it; with `lars` it is that of one batch times |w| / |g|, between 0.01 and 100, for each
    parameter by itself.

    Source: Goyal et al., Accurate, Large Minibatch SGD, 2017; You et al., Large Batch Training of Convolutional
    Networks, 2017.

    Parameters
    ----------
    momentum : float
        Share of the last step that is kept.
    multi_precision : bool
        As of `Optimizer`.
    warmup_strategy : str
        How the rate grows: `linear`, `power2`, `sqrt`; or `lars`. With any other word it does not grow.
    warmup_epochs : int
        Epochs after which the rate has its full value.
    batch_scale : int
        Batches per step.
    updates_per_epoch : int
        Batches in an epoch.
    begin_epoch : int
        Epochs that were trained before.
    num_epochs : int
        Accepted as in MXNet; not used.
    """

    _copy_is_last = False
    _remembered = MappingProxyType({"_gathered": NDArray, "_counts": int})

    def __init__(
        self,
        momentum: float = 0.0,
        multi_precision: bool = False,
        warmup_strategy: str = "linear",
        warmup_epochs: int = 5,
        batch_scale: int = 1,
        updates_per_epoch: int = 32,
        begin_epoch: int = 0,
        num_epochs: int = 60,
        **kwargs: Any,
    ) -> None:
        super().__init__(momentum=momentum, multi_precision=multi_precision, **kwargs)
        if batch_scale < 1:
            raise ArgumentError(f"[LBSGD] batch_scale: expected at least 1, got {batch_scale!r}")
        self.warmup_strategy, self.batch_scale = warmup_strategy, batch_scale
        self.warmup_updates = warmup_epochs * updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self._gathered: dict[Index, NDArray] = {}
        self._counts: dict[Index, int] = {}

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """A step with every `batch_scale`-th gradient; the others are added up."""
        common = self._common(index)
        count = self._counts[index] = self._counts.get(index, self.init_updates) + 1
        gathered = self._gathered.pop(index, None)
        if gathered is not None:
            grad = gathered.as_in_context(grad.context) + grad
        if count % self.batch_scale:
            self._gathered[index] = grad.copy() if gathered is None else grad
            return
        mean = grad / self.batch_scale
        if self.warmup_strategy == "lars":
            self._layerwise(weight, mean, state, common)
            return
        common["lr"] *= self._growth(count)
        if state is None:
            nd.sgd_update(weight, mean, out=weight, **common)
        else:
            nd.sgd_mom_update(weight, mean, state, out=weight, momentum=self.momentum, **common)

    def _growth(self, count: int) -> float:
        """The rate after so many gradients, as a multiple of that of one batch."""
        if count >= self.warmup_updates:
            return self.batch_scale
        grown = _GROWTH.get(self.warmup_strategy)
        if grown is None or self.warmup_updates <= 1:
            return 1.0
        return 1.0 + (self.batch_scale - 1) * grown(count / self.warmup_updates)

    def _layerwise(self, weight: NDArray, grad: NDArray, state: State, common: dict[str, float]) -> None:
        squares = nd.sum(weight * weight), nd.sum(grad * grad)
        ratio = nd.sqrt(squares[0] / (squares[1] + common["wd"] * squares[0] + 1e-18))
        rate = common["lr"] * nd.clip(ratio, 0.01, 100.0)
        step = rate * (self._scaled(grad, common, zero_limits=False) + common["wd"] * weight)
        if state is not None:
            state[:] = self.momentum * state - step
            weight += state
        else:
            weight -= step


class ccSGD(SGD):
    """The same as `SGD`; MXNet's former name of it."""
