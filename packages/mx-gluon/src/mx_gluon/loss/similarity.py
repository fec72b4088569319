# SPDX-License-Identifier: Apache-2.0
"""Losses of pairs of vectors that are to be alike or different."""

from __future__ import annotations

from typing import Any

from mx_gluon.errors import RefusedError
from mx_gluon.loss.classification import KLDivLoss
from mx_gluon.loss.loss import Loss, like
from mx_ndarray import nd

_TINY = 1e-12


class CosineEmbeddingLoss(Loss):
    """1 − cos of vectors with label 1, max(0, cos − margin) of those with label −1.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    margin : float
        From −1 to 1.
    weight, batch_axis : as in `Loss`

    Shapes: input1 and input2 (N, C), label (N,); output (N, 1).
    """

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, margin: float = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, input1: Any, input2: Any, label: Any, sample_weight: Any = None) -> Any:
        """One loss per pair."""
        input1 = like(F, input1, input2)
        label = label.reshape((-1, 1))
        cos = self._cosine_similarity(F, input1, input2)
        alike = (1 - cos) * (label == 1)
        different = F.relu((label == -1) * (cos - self._margin))
        return self._weighted(F, alike + different, sample_weight)

    def _cosine_similarity(self, F: Any, x: Any, y: Any, axis: int = -1) -> Any:
        norms = [F.norm(each, axis=axis).reshape((-1, 1)) for each in (x, y)]
        product = F.sum(x * y, axis=axis).reshape((-1, 1))
        return product / F.maximum(norms[0] * norms[1], _TINY)


class SDMLLoss(Loss):
    """Smoothed deep metric learning: each vector is to be nearest to its partner among those of the batch.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    smoothing_parameter : float
        Probability that is given to the vectors that are no partners, together.
    weight, batch_axis : as in `Loss`

    Shapes: x1 and x2 (N, C), of which rows with one index are partners; output (N,).

    Raises
    ------
    RefusedError  the shapes differ

    Source: Bonadiman et al., Large Scale Question Paraphrase Retrieval with Smoothed Deep Metric Learning, 2019.
    """

    def __init__(
        self, smoothing_parameter: float = 0.3, weight: float | None = 1.0, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def hybrid_forward(self, F: Any, x1: Any, x2: Any) -> Any:
        """One loss per row of x1."""
        if F is nd and (x1.shape != x2.shape or len(x1.shape) != 2):
            raise RefusedError(
                f"[{self.name}] expected two matrices of one shape, got {x1.shape} and {x2.shape}"
            )
        differences = F.broadcast_sub(F.expand_dims(x1, axis=1), F.expand_dims(x2, axis=0))
        distances = F.sum(F.square(differences), axis=2)
        place = F.contrib.arange_like(x1, axis=0)
        same = F.broadcast_equal(place.reshape((-1, 1)), place.reshape((1, -1)))
        others = F.sum(F.ones_like(place)) - 1
        labels = (
            same * (1 - self.smoothing_parameter)
            + F.broadcast_div(1 - same, others) * self.smoothing_parameter
        )
        return self.kl_loss(F.log_softmax(-distances, axis=1), labels)
