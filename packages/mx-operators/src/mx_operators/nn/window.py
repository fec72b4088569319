# SPDX-License-Identifier: Apache-2.0
"""Windows that convolutions move over data: parameters, checks, extents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import floordiv, sub

from mx_core.operator import Params, Shape, Shapes, opt, required


class WindowParam(Params):
    """The window."""

    kernel: Shape = required("window, one extent per spatial axis", lower=1)
    stride: Shape = opt((), "step per spatial axis; () is 1", lower=1)
    dilate: Shape = opt((), "distance of the window's elements per spatial axis; () is 1", lower=1)
    pad: Shape = opt((), "zeros on both sides per spatial axis; () is 0", lower=0)


def geometry(p: WindowParam) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """stride, dilate, pad with defaults filled in."""
    rank = len(p.kernel)
    one = (1,) * rank
    return p.stride or one, p.dilate or one, p.pad or (0,) * rank


def check_window(p: WindowParam, rank: int, s: Shapes) -> None:
    """Raises unless every window parameter has one value per spatial axis."""
    problem = _problem(p, rank)
    if problem:
        raise s.error(problem)


@lru_cache(maxsize=1024)
def _problem(p: WindowParam, rank: int) -> str:
    """What is wrong with parameters for so many spatial axes, whatever the data; empty if nothing."""
    for name, value in (("kernel", p.kernel), ("stride", p.stride), ("dilate", p.dilate), ("pad", p.pad)):
        if len(value) != rank and (value or name == "kernel"):
            return f"{name}: expected {rank} values for {rank} spatial axes, got {value}"
    return ""


@lru_cache(maxsize=1024)
def _steps(p: WindowParam) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two numbers per spatial axis: (extent − first) // second windows lie along it."""
    stride, dilate, pad = geometry(p)
    along = zip(p.kernel, stride, dilate, pad, strict=True)
    return tuple(d * (k - 1) + 1 - 2 * q - s for k, s, d, q in along), stride


def check_rank(p: WindowParam, data: Sequence[int], s: Shapes) -> None:
    """Raises unless data has as many spatial axes as the window."""
    if len(data) != len(p.kernel) + 2:
        raise s.error(f"data: expected {len(p.kernel) + 2} dimensions for kernel {p.kernel}, got {data}")


def out_extents(p: WindowParam, spatial: Sequence[int]) -> tuple[int, ...]:
    """How many windows there are per spatial axis; −1 where the extent of data is unknown."""
    first, stride = _steps(p)
    out = tuple(map(floordiv, map(sub, spatial, first), stride))
    if -1 not in spatial:
        return out
    return tuple(-1 if size < 0 else extent for size, extent in zip(spatial, out, strict=True))


def in_extents(p: WindowParam, out: Sequence[int]) -> tuple[int, ...]:
    """The extents of data with so many windows; −1 where the stride is not 1, which several extents have."""
    stride, dilate, pad = geometry(p)
    return tuple(
        -1 if windows < 0 or step != 1 else windows + between * (k - 1) - 2 * around
        for windows, k, step, between, around in zip(out, p.kernel, stride, dilate, pad, strict=True)
    )


def checked_extents(
    p: WindowParam, data: Sequence[int], spatial: Sequence[int], s: Shapes
) -> tuple[int, ...]:
    """`out_extents` of data with these spatial extents; raises where there is no window."""
    out = out_extents(p, spatial)
    if (
        out
        and min(out) < 1
        and any(extent < 1 and size >= 0 for extent, size in zip(out, spatial, strict=True))
    ):
        raise s.error(f"kernel {p.kernel} is larger than the padded data {data}, pad {geometry(p)[2]}")
    return out
