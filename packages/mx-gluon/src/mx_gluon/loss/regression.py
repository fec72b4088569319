# SPDX-License-Identifier: Apache-2.0
"""Losses of numbers: squared, absolute and Huber's differences, counts."""

from __future__ import annotations

import math
from typing import Any

from mx_gluon.loss.loss import Loss, like


class L2Loss(Loss):
    """Half of the mean squared difference.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    weight : float
        Factor of the loss, besides the half.
    batch_axis : int

    Shapes: pred and label of equal size, sample_weight broadcast to pred; output (N,).
    """

    def __init__(self, weight: float = 1.0, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """One loss per example."""
        loss = F.square(like(F, label, pred) - pred)
        if sample_weight is not None:
            loss = F.broadcast_mul(loss, sample_weight)
        return self._mean(F, loss if self._weight is None else loss * (self._weight / 2))


class L1Loss(Loss):
    """The mean absolute difference.

    Threads: as `HybridBlock`.

    Shapes: as in `L2Loss`.
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """One loss per example."""
        loss = F.abs(like(F, label, pred) - pred)
        return self._mean(F, self._weighted(F, loss, sample_weight))


class HuberLoss(Loss):
    """Half of the squared difference divided by rho up to rho, the absolute one less rho / 2 beyond.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    rho : float
        Where the one becomes the other.
    weight, batch_axis : as in `Loss`

    Shapes: as in `L2Loss`.
    """

    def __init__(
        self, rho: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """One loss per example."""
        far = F.abs(like(F, label, pred) - pred)
        loss = F.where(far > self._rho, far - 0.5 * self._rho, (0.5 / self._rho) * F.square(far))
        return self._mean(F, self._weighted(F, loss, sample_weight))


class PoissonNLLLoss(Loss):
    """The negative logarithm of a Poisson distribution's probability of a count.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    from_logits : bool
        Whether predictions are the logarithms of means.
    compute_full : bool
        Add Stirling's approximation of log(target!) for targets above 1.
    weight, batch_axis : as in `Loss`

    Shapes: pred and target of equal size; output (1,), the mean of all, as in MXNet.
    """

    def __init__(
        self,
        weight: float | None = None,
        from_logits: bool = True,
        batch_axis: int = 0,
        compute_full: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._compute_full = compute_full

    def hybrid_forward(
        self, F: Any, pred: Any, target: Any, sample_weight: Any = None, epsilon: float = 1e-8
    ) -> Any:
        """The mean of all losses."""
        target = like(F, target, pred)
        if self._from_logits:
            loss = F.exp(pred) - target * pred
        else:
            loss = pred - target * F.log(pred + epsilon)
        if self._compute_full:
            stirling = target * F.log(target) - target + 0.5 * F.log(2 * math.pi * target)
            loss = loss + F.where(target > 1, stirling, F.zeros_like(target))
        return F.mean(self._weighted(F, loss, sample_weight))
