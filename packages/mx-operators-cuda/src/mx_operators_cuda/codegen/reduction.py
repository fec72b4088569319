# SPDX-License-Identifier: Apache-2.0
"""One reduction over axes as CUDA C++ text.

The input's axes are merged to runs that are kept or reduced; which are is part of the source, sizes
are arguments. Where the innermost run is reduced a block folds an output's elements (`rows`), else a
thread does, so that neighbours read neighbours (`columns`). An output's elements may be cut into
segments that are folded side by side into partial results, which a second kernel folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from mx_core.expression import Expression, Opcode, compute_dtype
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.source import BLOCK, HEADER, KernelSource, write_function

#: what folding starts with; of integers the lowest and the highest stand for the infinities
_START = {Opcode.ADD: 0.0, Opcode.MUL: 1.0, Opcode.MAXIMUM: -float("inf"), Opcode.MINIMUM: float("inf")}
#: with fewer elements in a row than this, most threads of a block would have none
_SHORT = 32


def start(fold: Opcode, compute: int) -> str:
    """What folding begins with, as a constant of the compute type."""
    if fold is Opcode.MINIMUM and compute not in names.FLOATS:
        return f"mx::limits<{names.COMPUTE[compute]}>::high"
    return names.literal(_START[fold], compute)


@dataclass(frozen=True)
class Runs:
    """Merged axes, outermost first: elements, elements between neighbours, whether reduced."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    reduced: tuple[bool, ...]

    @property
    def outputs(self) -> int:
        """Elements of the output."""
        return prod(s for s, r in zip(self.sizes, self.reduced, strict=True) if not r)

    @property
    def extent(self) -> int:
        """Elements of the input per output."""
        return prod(s for s, r in zip(self.sizes, self.reduced, strict=True) if r)

    @property
    def by_rows(self) -> bool:
        """True when a block folds an output's elements."""
        return bool(self.reduced) and self.reduced[-1] and self.sizes[-1] >= _SHORT

    @property
    def wide(self) -> bool:
        """True when 32-bit indices are not enough."""
        return prod(self.sizes) >= 1 << 31

    def of(self, reduced: bool) -> list[int]:
        """Indices of the runs that are reduced, or kept."""
        return [i for i, r in enumerate(self.reduced) if r is reduced]

    def arguments(self) -> tuple[int, ...]:
        """The kernel's last arguments: sizes and strides, without those its source knows."""
        made = []
        for kind in (False, True):
            for position, i in enumerate(self.of(kind)):
                made += [self.sizes[i]] * (position > 0) + [self.strides[i]] * (i + 1 < len(self.sizes))
        return tuple(made)


def runs_of(shape: Sequence[int], reduced: Sequence[int]) -> Runs:
    """Axes of a contiguous tensor merged; `reduced` names those that are reduced."""
    sizes: list[int] = []
    flags: list[bool] = []
    for axis, size in enumerate(shape):
        here = axis in reduced
        if size == 1:
            continue
        if flags and flags[-1] is here:
            sizes[-1] *= size
        else:
            sizes.append(size)
            flags.append(here)
    strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    return Runs(tuple(sizes), tuple(strides), tuple(flags))


def write_reduction(
    name: str,
    runs: Runs,
    source: int,
    target: int,
    compute: int,
    load: Expression,
    fold: Opcode,
    finish: Expression,
) -> KernelSource:
    """The kernel of a reduction.

    Its parameters, in order: pointer of the input; pointer of the output and the request; numbers of
    outputs, of elements per output, of segments, of elements per segment; the count that `finish`
    gets; then `Runs.arguments`. With several segments the output has one element for each.

    Parameters
    ----------
    source, target, compute : int
        Type codes of input and output, and the one in which it folds.
    load : Expression
        From an element to what is folded.
    fold : Opcode
        ADD, MUL, MAXIMUM or MINIMUM.
    finish : Expression
        From (folded value, count) to the result.
    """
    read, write = names.STORAGE[source], names.STORAGE[target]
    indices = [
        "outputs", "extent", "segments", "segment", "count", *_argument_names(runs)
    ]  # fmt: skip
    parameters = [f"const {read}* x", f"{write}* y", "int request", *(f"Index {i}" for i in indices)]
    output = "(task / segments)" if runs.by_rows else "(task % outputs)"
    kept, walked = _offset(runs, False, output), _offset(runs, True, "k")
    accumulate = [
        f"Value folded = {start(fold, compute)};",
        "for (Index k = first + BEGIN; k < last; k += STEP) {",
        "  Value v;",
        f"  load(mx::convert<Value>(line[{walked}]), v);",
        "  folded = fold(folded, v);",
        "}",
    ]
    loop = _rows(accumulate, kept, read) if runs.by_rows else _columns(accumulate, kept, read)
    text = "\n".join(
        [
            f"// {name}: {'by rows' if runs.by_rows else 'by columns'}",
            f'#include "{HEADER}"',
            "",
            f"using Value = {names.COMPUTE[compute]};",
            f"using Index = mx::{'uint64' if runs.wide else 'uint32'};",
            "",
            *write_function("load", load, compute, [0]),
            *write_function("finish", finish, compute, range(finish.n_inputs)),
            "__device__ inline Value fold(Value a, Value b) { "
            f"return {names.call(fold, 0, ['a', 'b'], compute)}; }}",
            "",
            f'extern "C" __global__ void __launch_bounds__({BLOCK})',
            f"{name}({', '.join(parameters)}) {{",
            "  const Index tasks = outputs * segments;",
            *loop,
            "}",
            "",
        ]
    )
    return KernelSource(name, text, 1)


def fold_type(source: int) -> int:
    """Type code in which elements of a type are folded."""
    return compute_dtype((source,))


def _argument_names(runs: Runs) -> list[str]:
    made = []
    for kind in (False, True):
        for position, i in enumerate(runs.of(kind)):
            made += [f"size{i}"] * (position > 0) + [f"stride{i}"] * (i + 1 < len(runs.sizes))
    return made


def _offset(runs: Runs, kind: bool, index: str) -> str:
    """Where element `index` of the kept, or reduced, runs lies."""
    terms, rest = [], index
    own = runs.of(kind)
    for position, i in reversed(list(enumerate(own))):
        at = f"{rest} % size{i}" if position else rest
        terms.append(at if i + 1 == len(runs.sizes) else f"{at} * stride{i}")
        rest = f"{rest} / size{i}"
    return " + ".join(terms) or "0"


_SEGMENT = "const Index last = first + segment < extent ? first + segment : extent;"


def _rows(accumulate: list[str], kept: str, read: str) -> list[str]:
    body = [line.replace("BEGIN", "threadIdx.x").replace("STEP", "blockDim.x") for line in accumulate]
    return [
        f"  __shared__ Value partial[{BLOCK}];",
        "  for (Index task = blockIdx.x; task < tasks; task += gridDim.x) {",
        "    const Index first = task % segments * segment;",
        f"    {_SEGMENT}",
        f"    const {read}* line = x + ({kept});",
        *(f"    {line}" for line in body),
        "    partial[threadIdx.x] = folded;",
        "    __syncthreads();",
        "    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {",
        "      if (threadIdx.x < half) {",
        "        partial[threadIdx.x] = fold(partial[threadIdx.x], partial[threadIdx.x + half]);",
        "      }",
        "      __syncthreads();",
        "    }",
        "    if (threadIdx.x == 0) {",
        "      Value r;",
        "      finish(partial[0], Value(count), r);",
        "      mx::store(y, task, request, r);",
        "    }",
        "    __syncthreads();",
        "  }",
    ]


def _columns(accumulate: list[str], kept: str, read: str) -> list[str]:
    body = [line.replace("BEGIN", "0").replace("STEP", "1") for line in accumulate]
    return [
        "  const Index step = Index(gridDim.x) * blockDim.x;",
        "  for (Index task = Index(blockIdx.x) * blockDim.x + threadIdx.x; task < tasks; task += step) {",
        "    const Index first = task / outputs * segment;",
        f"    {_SEGMENT}",
        f"    const {read}* line = x + ({kept});",
        *(f"    {line}" for line in body),
        "    Value r;",
        "    finish(folded, Value(count), r);",
        "    mx::store(y, task, request, r);",
        "  }",
    ]
