# SPDX-License-Identifier: Apache-2.0
"""Pixel shuffle: channels become pixels between those that are there.

Source: Shi et al., Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural
Network, CVPR 2016.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from mx_gluon.block import HybridBlock
from mx_gluon.errors import RefusedError


class _PixelShuffle(HybridBlock):
    """From (N, C·f1·…, D1, …) to (N, C, D1·f1, …)."""

    _axes: ClassVar[int]

    def __init__(self, factor: int | Iterable[int]) -> None:
        super().__init__()
        given = (int(factor),) * self._axes if isinstance(factor, (int, float)) else tuple(map(int, factor))
        if len(given) != self._axes or min(given) < 1:
            raise RefusedError(
                f"[{type(self).__name__}] factor: expected a number or {self._axes} numbers from 1, got {factor!r}"
            )
        self._factors = given

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """An array of 2 axes more than there are factors."""
        for i, factor in enumerate(self._factors):
            # The first factor left is the slowest part of the channels.
            rest = math.prod(self._factors[i + 1 :])
            before, after = (0,) * i, (0,) * (self._axes - i - 1)
            x = F.reshape(x, shape=(0, -4, -1, factor * rest, *before, 0, *after))
            x = F.reshape(x, shape=(0, 0, -4, factor, rest, *before, 0, *after))
            last = 4 + i  # N, channels, factor, rest, the axes before, the axis, the axes after
            x = F.transpose(x, axes=(0, 1, 3, *range(4, last + 1), 2, *range(last + 1, 4 + self._axes)))
            x = F.reshape(x, shape=(0, -3, *before, -3, *after))
        return x

    def __repr__(self) -> str:
        shown = self._factors[0] if self._axes == 1 else self._factors
        return f"{type(self).__name__}({shown})"


class PixelShuffle1D(_PixelShuffle):
    """From (N, C·f, W) to (N, C, W·f).

    Threads: as `HybridBlock`.

    Parameters
    ----------
    factor : int
    """

    _axes = 1


class PixelShuffle2D(_PixelShuffle):
    """From (N, C·f1·f2, H, W) to (N, C, H·f1, W·f2).

    Threads: as `HybridBlock`.

    Parameters
    ----------
    factor : int or pair of int
    """

    _axes = 2


class PixelShuffle3D(_PixelShuffle):
    """From (N, C·f1·f2·f3, D, H, W) to (N, C, D·f1, H·f2, W·f3).

    Threads: as `HybridBlock`.

    Parameters
    ----------
    factor : int or three of int
    """

    _axes = 3
