# SPDX-License-Identifier: Apache-2.0
"""The loss of sequences that are not aligned with their labels."""

from __future__ import annotations

from typing import Any

from mx_gluon.errors import RefusedError
from mx_gluon.loss.loss import Loss


class CTCLoss(Loss):
    """Connectionist temporal classification: the negative logarithm of the probability of a label sequence.

    The last class is the blank.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    layout : {"NTC", "TNC"}
        Of the predictions: examples, steps, classes.
    label_layout : {"NT", "TN"}
    weight : float, optional

    Shapes: pred (N, T, C), label (N, L) filled up with −1, pred_lengths and label_lengths (N,); output (N,).

    Raises
    ------
    RefusedError  another layout

    Source: Graves et al., Connectionist Temporal Classification, 2006.
    """

    def __init__(
        self, layout: str = "NTC", label_layout: str = "NT", weight: float | None = None, **kwargs: Any
    ) -> None:
        for what, given, known in (
            ("layout", layout, ("NTC", "TNC")),
            ("label_layout", label_layout, ("NT", "TN")),
        ):
            if given not in known:
                raise RefusedError(f"[CTCLoss] {what}: expected {known[0]!r} or {known[1]!r}, got {given!r}")
        self._layout = layout
        self._label_layout = label_layout
        super().__init__(weight, label_layout.find("N"), **kwargs)

    def hybrid_forward(
        self,
        F: Any,
        pred: Any,
        label: Any,
        pred_lengths: Any = None,
        label_lengths: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """One loss per example."""
        if self._layout == "NTC":
            pred = F.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = F.swapaxes(label, 0, 1)
        lengths = {
            name: value
            for name, value in (("data_lengths", pred_lengths), ("label_lengths", label_lengths))
            if value is not None
        }
        loss = F.CTCLoss(
            pred,
            label,
            use_data_lengths=pred_lengths is not None,
            use_label_lengths=label_lengths is not None,
            blank_label="last",
            **lengths,
        )
        return self._weighted(F, loss, sample_weight)
