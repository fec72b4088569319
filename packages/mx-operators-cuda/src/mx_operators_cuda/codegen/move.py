# SPDX-License-Identifier: Apache-2.0
"""Copies between strided views, as CUDA C++ text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy.typing as npt

from mx_core.expression import compute_dtype
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.source import BLOCK, HEADER, KernelSource


@dataclass(frozen=True)
class View:
    """Where the elements of a part of a tensor lie: strides and offset in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, view: npt.NDArray[Any], whole: npt.NDArray[Any]) -> View:
        """What NumPy made of a contiguous array by looking at it in another way.

        Raises
        ------
        ValueError  it is a copy
        """
        first, start = (x.__array_interface__["data"][0] for x in (view, whole))
        if view.size and not start <= first < start + whole.nbytes:
            raise ValueError("a copy, not a view")
        item = whole.itemsize
        return cls(
            view.shape, tuple(s // item for s in view.strides), (first - start) // item if view.size else 0
        )


@dataclass(frozen=True)
class Walk:
    """Axes that two views are walked along together, merged, outermost first."""

    sizes: tuple[int, ...]
    source: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Elements that are copied."""
        return prod(self.sizes)


def walk(source: View, target: View) -> Walk:
    """The axes of two views of one shape; neighbours that both walk as one are merged."""
    sizes: list[int] = []
    steps: list[tuple[int, int]] = []
    for size, a, b in zip(target.shape, source.strides, target.strides, strict=True):
        if size == 1:
            continue
        if steps and steps[-1] == (a * size, b * size):
            sizes[-1] *= size
            steps[-1] = (a, b)
        else:
            sizes.append(size)
            steps.append((a, b))
    return Walk(tuple(sizes), tuple(a for a, _ in steps), tuple(b for _, b in steps))


def write_move(name: str, code: int, rank: int, scalar: bool = False) -> KernelSource:
    """A kernel that copies along `rank` axes.

    Its parameters, in order: pointer of the input, or with `scalar` the number as `mx::Scalar`; pointer of the
    output and the request; elements; offset in the input and in the output; sizes of all axes but the
    first; strides in the input; strides in the output. All numbers are 64 bits wide.
    """
    compute, stored = compute_dtype((code,)), names.STORAGE[code]
    axes = range(rank)
    numbers = ["mx::uint64 n", "mx::int64 from0", "mx::int64 to0", *(f"mx::uint64 size{i}" for i in axes[1:])]
    numbers += [f"mx::int64 from_stride{i}" for i in axes] + [f"mx::int64 to_stride{i}" for i in axes]
    source = "mx::Scalar given" if scalar else f"const {stored}* x"
    lines = []
    for i in reversed(axes):
        at = f"rest % size{i}" if i else "rest"
        lines.append(f"    const mx::int64 k{i} = {at};")
        lines += [f"    rest /= size{i};"] if i else []
        lines += [] if scalar else [f"    from += k{i} * from_stride{i};"]
        lines.append(f"    to += k{i} * to_stride{i};")
    value = "x" if scalar else "mx::convert<Value>(x[from])"
    text = [
        f'#include "{HEADER}"',
        "",
        f"using Value = {names.COMPUTE[compute]};",
        "",
        f'extern "C" __global__ void __launch_bounds__({BLOCK})',
        f"{name}({source}, {stored}* y, int request, {', '.join(numbers)}) {{",
        *(["  const Value x = mx::convert<Value>(double(given));"] if scalar else []),
        "  const mx::uint64 step = mx::uint64(gridDim.x) * blockDim.x;",
        "  for (mx::uint64 i = mx::uint64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {",
        *(["    mx::uint64 rest = i;"] if rank else []),
        *([] if scalar else ["    mx::int64 from = from0;"]),
        "    mx::int64 to = to0;",
        *lines,
        f"    mx::store(y, to, request, {value});",
        "  }",
        "}",
        "",
    ]
    return KernelSource(name, "\n".join(text), 1)


def numbers(way: Walk, source: View, target: View) -> Sequence[int]:
    """The kernel's last arguments, as unsigned 64-bit numbers."""
    given = (way.elements, source.offset, target.offset, *way.sizes[1:], *way.source, *way.target)
    return [value % 2**64 for value in given]
