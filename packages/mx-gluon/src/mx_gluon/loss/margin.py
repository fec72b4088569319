# SPDX-License-Identifier: Apache-2.0
"""Losses that are 0 beyond a margin."""

from __future__ import annotations

from typing import Any

from mx_gluon.loss.loss import Loss, like


class HingeLoss(Loss):
    """max(0, margin − pred·label), of labels −1 and 1.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    margin : float
    weight, batch_axis : as in `Loss`

    Shapes: pred and label of equal size; output (N,).
    """

    def __init__(
        self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """One loss per example."""
        loss = self._lacking(F, pred, label)
        return self._mean(F, self._weighted(F, loss, sample_weight))

    def _lacking(self, F: Any, pred: Any, label: Any) -> Any:
        return F.relu(self._margin - pred * like(F, label, pred))


class SquaredHingeLoss(HingeLoss):
    """The square of `HingeLoss` for every element.

    Threads: as `HybridBlock`.
    """

    def _lacking(self, F: Any, pred: Any, label: Any) -> Any:
        return F.square(super()._lacking(F, pred, label))


class TripletLoss(Loss):
    """How much closer than a margin an example is to a negative one than to a positive one.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    margin : float
    weight, batch_axis : as in `Loss`

    Shapes: pred, positive and negative of equal size; output (N,).

    Source: Schroff et al., FaceNet, 2015.
    """

    def __init__(
        self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, positive: Any, negative: Any) -> Any:
        """One loss per example."""
        near = F.square(like(F, positive, pred) - pred)
        far = F.square(like(F, negative, pred) - pred)
        distance = F.sum(near - far, axis=self._batch_axis, exclude=True)
        return self._weighted(F, F.relu(distance + self._margin), None)
