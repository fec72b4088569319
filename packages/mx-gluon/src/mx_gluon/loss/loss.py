# SPDX-License-Identifier: Apache-2.0
"""What losses share: weights, and the mean over all axes but the batch's."""

from __future__ import annotations

import numbers
from typing import Any

from mx_gluon.block import HybridBlock
from mx_gluon.errors import RefusedError
from mx_ndarray import nd


class Loss(HybridBlock):
    """Base of losses.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    weight : float or None
        Factor of the loss.
    batch_axis : int
        The axis of the examples.
    """

    def __init__(self, weight: float | None, batch_axis: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if weight is not None and not isinstance(weight, numbers.Number):
            raise RefusedError(f"[{self.name}] weight: expected a number, got {weight!r}")
        self._weight = weight
        self._batch_axis = batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One loss per example."""
        raise NotImplementedError(f"[{self.name}] {type(self).__name__} does not define hybrid_forward")

    def _weighted(self, F: Any, loss: Any, sample_weight: Any) -> Any:
        """The loss times the weights: of examples or elements, and of the whole."""
        return _apply_weighting(F, loss, self._weight, sample_weight)

    def _mean(self, F: Any, loss: Any) -> Any:
        return F.mean(loss, axis=self._batch_axis, exclude=True)


def _apply_weighting(F: Any, loss: Any, weight: float | None = None, sample_weight: Any = None) -> Any:
    """A loss times weights of examples or elements, and times a number; losses of programs call it by MXNet's name."""
    if sample_weight is not None:
        loss = F.broadcast_mul(loss, sample_weight)
    if weight is None:
        return loss
    if not isinstance(weight, numbers.Number):
        raise RefusedError(f"[_apply_weighting] weight: expected a number, got {weight!r}")
    return loss * weight


def like(F: Any, x: Any, y: Any) -> Any:
    """x in the shape of y."""
    return x.reshape(y.shape) if F is nd else F.reshape_like(x, y)


#: MXNet's name
_reshape_like = like


def log_logistic(F: Any, pred: Any) -> Any:
    """log(1 + exp(−|pred|)), which does not overflow."""
    return F.Activation(-F.abs(pred), act_type="softrelu")
