# SPDX-License-Identifier: Apache-2.0
"""An operator that is not elementwise: declared in full, computed by a native kernel.

What it means is here; `csrc` says how it is computed. Without a kernel for an element type or a
device the references below compute it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mx_core.operator import (
    Array,
    Operator,
    Params,
    ReferenceContext,
    Shapes,
    required,
)


class MovingAverageParam(Params):
    """The window."""

    window: int = required("how many neighbours are averaged", lower=1)


def _window_means(x: Array, window: int) -> Array:
    """Means of all windows along the last axis, accumulated in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), window, axis=-1)
    means: Array = windows.mean(axis=-1)
    return means


class MovingAverage(Operator[MovingAverageParam]):
    """Mean of each full window of `window` neighbours along the last axis.

    data (…, n) gives (…, n − window + 1): y[i] = (x[i] + … + x[i + window − 1]) / window.
    """

    name = "moving_average"
    floating_only = True
    linear = True  # its second derivative is the moving average again

    def infer_shape(self, p: MovingAverageParam, s: Shapes) -> None:
        """The output from data, and data from the output."""
        for known, other, difference in (("data", "output", 1 - p.window), ("output", "data", p.window - 1)):
            shape = s.get(known)
            if shape is None:
                continue
            if not shape:
                raise s.error(f"{known}: expected at least one dimension, got ()")
            length = shape[-1] if shape[-1] < 0 else shape[-1] + difference
            if shape[-1] >= 0 and length < 1:
                raise s.error(
                    f"{known}: expected at least window={p.window} values along the last axis, got {shape}"
                )
            s.assign(other, (*shape[:-1], length))

    def reference(
        self, p: MovingAverageParam, inputs: Sequence[Array], ctx: ReferenceContext
    ) -> Sequence[Array]:
        """Every window, averaged."""
        return (_window_means(inputs[0], p.window).astype(inputs[0].dtype),)

    def backward(self, p: MovingAverageParam, out_grad: Array) -> Array:
        """Means of the out-gradient with window − 1 zeros on both sides; it keeps no array."""
        padding = [(0, 0)] * (out_grad.ndim - 1) + [(p.window - 1, p.window - 1)]
        return _window_means(np.pad(out_grad, padding), p.window)
