# SPDX-License-Identifier: Apache-2.0
"""Windows that convolutions move over data: parameters, checks, extents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

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


class Window(NamedTuple):
    """What the parameters alone say of a window."""

    #: what is wrong with them, whatever the data; empty if nothing
    problem: str
    #: one value per spatial axis
    kernel: tuple[int, ...]
    pad: tuple[int, ...]
    #: three numbers per spatial axis: (extent of the axis − first) // stride windows lie along it
    along: tuple[tuple[int, int, int], ...]


@lru_cache(maxsize=1024)
def window_of(p: WindowParam) -> Window:
    """The window that parameters describe; nothing lies along its axes where they are wrong."""
    problem = _problem(p, len(p.kernel))
    if problem:
        return Window(problem, p.kernel, p.pad, ())
    stride, dilate, pad = geometry(p)
    given = zip(p.kernel, stride, dilate, pad, strict=True)
    along = [(axis, d * (k - 1) + 1 - 2 * q - s, s) for axis, (k, s, d, q) in enumerate(given)]
    return Window("", p.kernel, pad, tuple(along))


def check_window(p: WindowParam, rank: int, s: Shapes) -> None:
    """Raises unless every window parameter has one value per spatial axis."""
    problem = window_of(p).problem if rank == len(p.kernel) else _problem(p, rank)
    if problem:
        raise s.error(problem)


def _problem(p: WindowParam, rank: int) -> str:
    """What is wrong with parameters for so many spatial axes; empty if nothing."""
    for name, value in (("kernel", p.kernel), ("stride", p.stride), ("dilate", p.dilate), ("pad", p.pad)):
        if len(value) != rank and (value or name == "kernel"):
            return f"{name}: expected {rank} values for {rank} spatial axes, got {value}"
    return ""


def check_rank(p: WindowParam, data: Sequence[int], s: Shapes) -> None:
    """Raises unless data has as many spatial axes as the window."""
    if len(data) != len(p.kernel) + 2:
        raise s.error(f"data: expected {len(p.kernel) + 2} dimensions for kernel {p.kernel}, got {data}")


def out_extents(p: WindowParam, spatial: Sequence[int]) -> list[int]:
    """How many windows there are per spatial axis; −1 where the extent of data is unknown."""
    return _extents(window_of(p), spatial)


def _extents(window: Window, spatial: Sequence[int]) -> list[int]:
    out = [(spatial[axis] - first) // stride for axis, first, stride in window.along]
    if -1 in spatial:
        return [-1 if size < 0 else extent for size, extent in zip(spatial, out, strict=True)]
    return out


def in_extents(p: WindowParam, out: Sequence[int]) -> tuple[int, ...]:
    """The extents of data with so many windows; −1 where the stride is not 1, which several extents have."""
    stride, dilate, pad = geometry(p)
    return tuple(
        -1 if windows < 0 or step != 1 else windows + between * (k - 1) - 2 * around
        for windows, k, step, between, around in zip(out, p.kernel, stride, dilate, pad, strict=True)
    )


def checked_extents(window: Window, data: Sequence[int], spatial: Sequence[int], s: Shapes) -> list[int]:
    """How many windows there are of data with these spatial extents, as `out_extents`; raises where there are none."""
    out = _extents(window, spatial)
    for extent in out:
        if extent < 1:  # or not known
            _require_some(window, data, spatial, out, s)
    return out


def _require_some(
    window: Window, data: Sequence[int], spatial: Sequence[int], out: Sequence[int], s: Shapes
) -> None:
    if any(extent < 1 and size >= 0 for extent, size in zip(out, spatial, strict=True)):
        raise s.error(f"kernel {window.kernel} is larger than the padded data {data}, pad {window.pad}")
