# SPDX-License-Identifier: Apache-2.0
"""Transforms of types and ranges."""

from __future__ import annotations

from typing import Any

from mx_gluon.block import HybridBlock


class Cast(HybridBlock):
    """Casts to an element type.

    Threads: any.
    """

    def __init__(self, dtype: str = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """An array of any shape."""
        return F.cast(x, self._dtype)


class ToTensor(HybridBlock):
    """Channels first, float32 from 0 to 1: from (H, W, C) or (N, H, W, C) of numbers from 0 to 255.

    Threads: any.
    """

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """An image or several."""
        return F.image.to_tensor(x)


class Normalize(HybridBlock):
    """Subtracts means of channels and divides by deviations: of (C, H, W) or (N, C, H, W), after `ToTensor`.

    Threads: any.

    Parameters
    ----------
    mean, std : float or sequence of float
        Of all channels, or of each.
    """

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        self._mean, self._std = mean, std

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """An image or several."""
        return F.image.normalize(x, self._mean, self._std)
