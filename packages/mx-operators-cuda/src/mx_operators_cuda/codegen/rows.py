# SPDX-License-Identifier: Apache-2.0
"""Kernels over rows: values folded from a row's elements, then the row written anew.

A row is a set of elements of a tensor: those along one axis, or all that belong to one channel. Folds are
taken in passes. A fold, and what is written, is an expression of the inputs, the run-time scalars, the position
in the row, the number of its elements, and the folds of the passes before; softmax is two folds and a result. A
block works on a row. Of a few long rows, blocks work on segments: every pass is then a kernel that leaves the
folds of the segments in scratch memory, and the next one begins with folding these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from mx_core.expression import Expression, Opcode
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.reduction import start
from mx_operators_cuda.codegen.source import BLOCK, HEADER, KernelSource, write_function


class At(Enum):
    """Which element of a tensor belongs to element k of a row."""

    ELEMENT = "at"  #: that of the same place
    ROW = "row"  #: one per row
    CYCLE = "row % cycle"  #: one per row of a cycle of rows
    POSITION = "k"  #: one per position
    OUTER = "k / inner * rows + row"  #: one per row and stretch of neighbouring elements
    ONE = "0"  #: one for all


#: those that are the same for a whole row
_ONCE = (At.ROW, At.CYCLE, At.ONE)


@dataclass(frozen=True)
class RowTensor:
    """A tensor of a kernel over rows."""

    dtype: int
    at: At = At.ELEMENT


#: a fold: ADD, MUL, MAXIMUM or MINIMUM of what an expression yields
Fold = tuple[Opcode, Expression]


@dataclass(frozen=True)
class RowKernel:
    """What is computed of rows.

    Parameters
    ----------
    compute : int
        Type code in which everything is computed.
    inputs, outputs : tuple of RowTensor
        Outputs lie at ELEMENT, or at ROW.
    passes : tuple of tuple of Fold
        Of the inputs, the scalars, the position, the number of elements, and the folds of earlier passes.
    result : Expression or None
        The outputs at ELEMENT, of the same values and all folds.
    summary : Expression or None
        The outputs at ROW; what belongs to an element, and the position, are 0.
    scalars : int
        Run-time scalars.
    block : int
        Threads that work on a row or segment, a power of two.
    narrow : bool
        32 bits are enough for indices.
    stretches : bool
        Neighbours of a row lie in stretches; otherwise all are `step` apart, and `inner` and `outer` mean nothing.
    """

    compute: int
    inputs: tuple[RowTensor, ...]
    outputs: tuple[RowTensor, ...]
    passes: tuple[tuple[Fold, ...], ...]
    result: Expression | None
    summary: Expression | None
    scalars: int = 0
    block: int = BLOCK
    narrow: bool = True
    stretches: bool = True

    @property
    def folds(self) -> int:
        """Folds of all passes."""
        return sum(map(len, self.passes))


def write_rows(name: str, kernel: RowKernel, stage: int | None = None) -> KernelSource:
    """A kernel over rows, or with `stage` the part that takes the folds of pass `stage`; the last part writes.

    Its parameters, in order: pointers of the inputs; pointer and request of each output (of a part that folds:
    neither); pointer of the segments' folds if there is a stage; `NUMBERS`; run-time scalars. Element k of row r lies
    at r / cycle * outer_row + r % cycle * next_row + k / inner * outer + k % inner * step.
    """
    return _Writer(name, kernel, stage).source()


class _Writer:
    def __init__(self, name: str, kernel: RowKernel, stage: int | None) -> None:
        self.name, self.k, self.stage = name, kernel, stage
        self.last = stage is None or stage == len(kernel.passes)

    def source(self) -> KernelSource:
        k, index = self.k, "mx::uint32" if self.k.narrow else "mx::uint64"
        pointers = [f"const {names.STORAGE[t.dtype]}* x{i}" for i, t in enumerate(k.inputs)]
        if self.last:
            for o, t in enumerate(k.outputs):
                pointers += [f"{names.STORAGE[t.dtype]}* y{o}", f"int request{o}"]
        pointers += [] if self.stage is None else ["Value* parts"]
        numbers = [f"Index {n}" for n in NUMBERS]
        numbers += [f"mx::Scalar given{i}" for i in range(k.scalars)]
        functions, number = [], 0
        for one in k.passes:
            for opcode, expression in one:
                functions += write_function(
                    f"load{number}", expression, k.compute, range(expression.n_inputs)
                )
                combined = names.call(opcode, 0, ["a", "b"], k.compute)
                functions.append(
                    f"__device__ inline Value fold{number}(Value a, Value b) {{ return {combined}; }}"
                )
                number += 1
        for what, made in (("result", k.result), ("summary", k.summary)):
            if made is not None:
                functions += write_function(what, made, k.compute, range(made.n_inputs))
        text = [
            f'#include "{HEADER}"',
            "",
            f"using Value = {names.COMPUTE[k.compute]};",
            f"using Index = {index};",
            "",
            *functions,
            "",
            f'extern "C" __global__ void __launch_bounds__({k.block})',
            f"{self.name}({', '.join([*pointers, *numbers])}) {{",
            *([f"  __shared__ Value partial[{k.block}];"] if k.folds else []),
            *(f"  const Value scalar{i} = Value(double(given{i}));" for i in range(k.scalars)),
            "  for (Index task = blockIdx.x; task < rows * segments; task += gridDim.x) {",
            "    const Index row = task / segments, segment = task % segments;",
            "    const Index base = row / cycle * outer_row + row % cycle * next_row;",
            "    const Index length = (extent + segments - 1) / segments, begin = segment * length;",
            "    const Index end = begin + length < extent ? begin + length : extent;",
            *(f"    {line}" for line in self._body()),
            "  }",
            "}",
            "",
        ]
        return KernelSource(self.name, "\n".join(text), 1, k.block)

    def _body(self) -> list[str]:
        lines, number = [], 0
        for p, one in enumerate(self.k.passes):
            known = number
            for opcode, expression in one:
                if self.stage is None or p == self.stage:
                    lines += self._fold(number, opcode, expression, known)
                elif p < self.stage:
                    lines += self._parts(number, opcode)
                number += 1
        return lines + (self._write() if self.last else [])

    def _tree(self, j: int) -> list[str]:
        return [
            f"partial[threadIdx.x] = folded{j};",
            "__syncthreads();",
            "for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {",
            "  if (threadIdx.x < half) {",
            f"    partial[threadIdx.x] = fold{j}(partial[threadIdx.x], partial[threadIdx.x + half]);",
            "  }",
            "  __syncthreads();",
            "}",
            f"const Value f{j} = partial[0];",
            "__syncthreads();",
        ]

    def _fold(self, j: int, opcode: Opcode, expression: Expression, folds: int) -> list[str]:
        lines = [
            f"Value folded{j} = {start(opcode, self.k.compute)};",
            *self._loop([
                "Value r;",
                f"load{j}({', '.join(self._values(expression, folds))}, r);",
                f"folded{j} = fold{j}(folded{j}, r);",
            ]),
            *self._tree(j),
        ]  # fmt: skip
        if self.stage is not None:
            lines.append(f"if (threadIdx.x == 0) parts[({j} * rows + row) * segments + segment] = f{j};")
        return lines

    def _parts(self, j: int, opcode: Opcode) -> list[str]:
        return [
            f"Value folded{j} = {start(opcode, self.k.compute)};",
            "for (Index s = threadIdx.x; s < segments; s += blockDim.x) {",
            f"  folded{j} = fold{j}(folded{j}, parts[({j} * rows + row) * segments + s]);",
            "}",
            *self._tree(j),
        ]

    def _loop(self, body: Sequence[str]) -> list[str]:
        offset = "k / inner * outer + k % inner * step" if self.k.stretches else "k * step"
        return [
            "for (Index k = begin + threadIdx.x; k < end; k += blockDim.x) {",
            *(
                [f"  const Index at = base + {offset};"]
                if any("at]" in b or "at," in b for b in body)
                else []
            ),
            *(f"  {line}" for line in body),
            "}",
        ]

    def _values(self, expression: Expression, folds: int, once: bool = False) -> list[str]:
        """Arguments of a function of one element, or of what is the same for a row."""
        used = {v for step in expression.instructions for v in step.operands} | set(expression.outputs)
        loaded = []
        for i, t in enumerate(self.k.inputs):
            read = i in used and (not once or t.at in _ONCE)
            loaded.append(f"mx::convert<Value>(x{i}[{t.at.value}])" if read else "Value(0)")
        scalars = [f"scalar{i}" for i in range(self.k.scalars)]
        place = "Value(0)" if once else "Value(k)"
        return [*loaded, *scalars, place, "Value(extent)", *(f"f{j}" for j in range(folds))]

    def _write(self) -> list[str]:
        lines = []
        for at, made in ((At.ELEMENT, self.k.result), (At.ROW, self.k.summary)):
            if made is None:
                continue
            once = at is At.ROW
            places = [o for o, t in enumerate(self.k.outputs) if t.at is at]
            results = [f"r{i}" for i in range(len(places))]
            body = [
                f"Value {', '.join(results)};",
                f"{'summary' if once else 'result'}({', '.join(self._values(made, self.k.folds, once) + results)});",
                *(
                    f"mx::store(y{o}, {at.value}, request{o}, {r});"
                    for o, r in zip(places, results, strict=True)
                ),
            ]
            if once:
                lines += ["if (segment == 0 && threadIdx.x == 0) {", *(f"  {line}" for line in body), "}"]
            else:
                lines += self._loop(body)
        return lines


#: the numbers of a kernel, in order
NUMBERS = ("rows", "extent", "cycle", "outer_row", "next_row", "inner", "outer", "step", "segments")
