# SPDX-License-Identifier: Apache-2.0
"""Losses of classes: cross entropies, the logistic loss, the divergence of distributions."""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.loss.loss import Loss, like, log_logistic

#: keeps logarithms of probabilities finite
_TINY = 1e-12


class SigmoidBinaryCrossEntropyLoss(Loss):
    """The cross entropy of labels 0 and 1 and the sigmoid of predictions.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    from_sigmoid : bool
        Whether predictions are probabilities already.
    weight, batch_axis : as in `Loss`

    Shapes: pred and label of equal size, pos_weight, the factor of label 1, and sample_weight broadcast to pred; output
    (N,).
    """

    def __init__(
        self, from_sigmoid: bool = False, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(
        self, F: Any, pred: Any, label: Any, sample_weight: Any = None, pos_weight: Any = None
    ) -> Any:
        """One loss per example."""
        label = like(F, label, pred)
        make = self._of_probabilities if self._from_sigmoid else self._of_logits
        return self._mean(F, self._weighted(F, make(F, pred, label, pos_weight), sample_weight))

    @staticmethod
    def _of_logits(F: Any, pred: Any, label: Any, pos_weight: Any) -> Any:
        if pos_weight is None:
            return F.relu(pred) - pred * label + log_logistic(F, pred)
        factor = 1 + F.broadcast_mul(pos_weight - 1, label)
        return pred - pred * label + factor * (log_logistic(F, pred) + F.relu(-pred))

    @staticmethod
    def _of_probabilities(F: Any, pred: Any, label: Any, pos_weight: Any) -> Any:
        right = F.log(pred + _TINY) * label
        if pos_weight is not None:
            right = F.broadcast_mul(right, pos_weight)
        return -(right + F.log(1.0 - pred + _TINY) * (1.0 - label))


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """The cross entropy of labels and the softmax of predictions.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    axis : int
        Of the classes.
    sparse_label : bool
        Whether labels are numbers of classes, instead of distributions.
    from_logits : bool
        Whether predictions are logarithms of probabilities already.
    weight, batch_axis : as in `Loss`

    Shapes: pred (N, …, C, …), label without the axis of classes, or of pred's size; output (N,).
    """

    def __init__(
        self,
        axis: int = -1,
        sparse_label: bool = True,
        from_logits: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._axis = axis
        self._sparse_label = sparse_label
        self._from_logits = from_logits

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """One loss per example."""
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            loss = -F.sum(pred * like(F, label, pred), axis=self._axis, keepdims=True)
        return self._mean(F, self._weighted(F, loss, sample_weight))


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """The divergence of predicted from true distributions.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    from_logits : bool
        Whether predictions are logarithms of probabilities already.
    axis : int
        Of the classes.
    weight, batch_axis : as in `Loss`

    Shapes: pred and label alike; output (N,), the sum over all axes but the batch's.

    Source: Kullback and Leibler, On Information and Sufficiency, 1951.
    """

    def __init__(
        self,
        from_logits: bool = True,
        axis: int = -1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._axis = axis

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """One loss per example."""
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        loss = label * (F.log(label + _TINY) - pred)
        return F.sum(self._weighted(F, loss, sample_weight), axis=self._batch_axis, exclude=True)


class LogisticLoss(Loss):
    """log(1 + exp(−pred·label)).

    Threads: as `HybridBlock`.

    Parameters
    ----------
    label_format : {"signed", "binary"}
        Whether labels are −1 and 1, or 0 and 1.
    weight, batch_axis : as in `Loss`

    Shapes: as in `SigmoidBinaryCrossEntropyLoss`.

    Raises
    ------
    ArgumentError  another format
    """

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, label_format: str = "signed", **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ArgumentError(
                f"[{self.name}] label_format: expected 'signed' or 'binary', got {label_format!r}"
            )
        self._label_format = label_format

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """One loss per example."""
        label = like(F, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + log_logistic(F, pred)
        return self._mean(F, self._weighted(F, loss, sample_weight))
