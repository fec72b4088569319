# SPDX-License-Identifier: Apache-2.0
"""What an estimator does with one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mx_core.context import Context
from mx_gluon.utils import split_and_load
from mx_ndarray import NDArray, autograd

if TYPE_CHECKING:
    from mx_gluon.contrib.estimator.estimator import Estimator

#: per context: data, labels, what the network returned, losses
Results = tuple[list[NDArray], list[NDArray], list[Any], list[NDArray]]


class BatchProcessor:
    """Computes one batch; a subclass computes it in another way.

    Threads: as the network.
    """

    def _get_data_and_label(
        self, batch: Any, ctx: Sequence[Context], batch_axis: int = 0
    ) -> tuple[list[NDArray], list[NDArray]]:
        """Data and labels, the first two parts of a batch, a slice per context."""
        data, label = (split_and_load(part, ctx, batch_axis) for part in (batch[0], batch[1]))
        return data, label

    def evaluate_batch(self, estimator: Estimator, val_batch: Any, batch_axis: int = 0) -> Results:
        """What the network and the loss of validation say of a batch."""
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        return data, label, pred, [estimator.val_loss(*pair) for pair in zip(pred, label, strict=True)]

    def fit_batch(self, estimator: Estimator, train_batch: Any, batch_axis: int = 0) -> Results:
        """Computes a batch and its gradients; `GradientUpdateHandler` makes the step."""
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(*pair) for pair in zip(pred, label, strict=True)]
        for each in loss:
            each.backward()
        return data, label, pred, loss
