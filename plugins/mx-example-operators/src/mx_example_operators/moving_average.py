# SPDX-License-Identifier: Apache-2.0
"""An operator that is not elementwise: declared in full, computed by a native kernel.

What it means is here; `csrc` says how it is computed. Without a kernel for an element type or a
device the reference below computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.operator import OperatorProperty, ReferenceContext, param, required

FLOATING = ("float16", "float32", "float64", "bfloat16")


@param
class MovingAverageParam:
    """The window."""

    window: int = required("how many neighbours are averaged", lower=1)


def _infer_lengths(p: Any, s: Any, longer: str, shorter: str) -> None:
    """Equal leading dimensions; `shorter` has one value per full window of `longer`."""
    for known, other, difference in ((longer, shorter, 1 - p.window), (shorter, longer, p.window - 1)):
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


def _floating(t: Any, names: Sequence[str]) -> None:
    """Everything has one floating-point type."""
    t.unify(names)
    code = t.get(names[0])
    if code is not None and dtypes.name(code) not in FLOATING:
        raise t.error(f"{names[0]}: expected one of {', '.join(FLOATING)}, got {dtypes.name(code)}")


def _window_means(x: Any, window: int) -> Any:
    """Means of all windows along the last axis, accumulated in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), window, axis=-1)
    return windows.mean(axis=-1).astype(x.dtype)


class MovingAverage(OperatorProperty):
    """Mean of each full window of `window` neighbours along the last axis.

    data (…, n) gives (…, n − window + 1): y[i] = (x[i] + … + x[i + window − 1]) / window.
    """

    name = "moving_average"
    Param = MovingAverageParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """The output from data, and data from the output."""
        _infer_lengths(p, s, longer="data", shorter="output")

    def infer_type(self, p: Any, t: Any) -> None:
        """Floating-point, the same everywhere."""
        _floating(t, ("data", "output"))

    def gradient(self, p: Any, g: Any) -> Any:
        """Linear: the out-gradient is all it needs, so backward keeps no array."""
        return g.op("_backward_moving_average", (g.out_grad(),), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardMovingAverage(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Every window, averaged."""
        return (_window_means(inputs[0], p.window),)


class BackwardMovingAverage(OperatorProperty):
    """Gradient of moving_average: each value takes part in up to `window` means."""

    name = "_backward_moving_average"
    Param = MovingAverageParam
    arguments = ("out_grad",)
    results = ("data_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """data_grad is longer by window − 1."""
        _infer_lengths(p, s, longer="data_grad", shorter="out_grad")

    def infer_type(self, p: Any, t: Any) -> None:
        """Floating-point, the same everywhere."""
        _floating(t, ("out_grad", "data_grad"))

    def gradient(self, p: Any, g: Any) -> Any:
        """The transpose of a transpose: the moving average itself."""
        return g.op("moving_average", (g.out_grad(),), params=p)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Means of the out-gradient with window − 1 zeros on both sides."""
        padding = [(0, 0)] * (inputs[0].ndim - 1) + [(p.window - 1, p.window - 1)]
        return (_window_means(np.pad(inputs[0], padding), p.window),)
