# SPDX-License-Identifier: Apache-2.0
"""One elementwise kernel as CUDA C++ text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

from mx_core import dtypes, get_include
from mx_core.expression import Expression, Opcode, compute_dtype
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.layout import Layout

#: threads per block of every generated kernel
BLOCK = 256
#: bytes a thread moves at once where the addresses allow
VECTOR_BYTES = 16
#: the includes of generated sources, by name
HEADER = "mx_operators_cuda/elementwise.cuh"
PHILOX = "mx_core/philox.hpp"


@dataclass(frozen=True)
class KernelSource:
    """A kernel's text and what its launch needs.

    Parameters
    ----------
    name : str
        Symbol of the kernel.
    text : str
        CUDA C++ that includes `HEADER`. Equal patterns have equal text.
    pack : int
        Elements a thread computes at once; 1 for broadcasts over several axes.
    block : int
        Threads per block.
    """

    name: str
    text: str
    pack: int
    block: int = BLOCK


@lru_cache(maxsize=1)
def header() -> str:
    """Text of `HEADER`."""
    return resources.files("mx_operators_cuda").joinpath("include", HEADER).read_text()


@lru_cache(maxsize=1)
def headers() -> dict[str, str]:
    """Texts of the files that generated sources include, by name."""
    folder = resources.files("mx_operators_cuda").joinpath("include", "mx_operators_cuda")
    ours = {f"mx_operators_cuda/{file.name}": file.read_text() for file in folder.iterdir()}
    return {**dict(sorted(ours.items())), PHILOX: Path(get_include(), PHILOX).read_text()}


def included(text: str) -> list[str]:
    """Names of the files that a source includes, and those that they include, sorted."""
    found: set[str] = set()
    left = [text]
    while left:
        new = set(re.findall(r'^#include "(.+)"', left.pop(), re.MULTILINE)) - found
        found |= new
        left += [headers()[name] for name in new]
    return sorted(found)


def write_kernel(
    name: str,
    expression: Expression,
    inputs: Sequence[int],
    outputs: Sequence[int],
    layout: Layout,
) -> KernelSource:
    """The kernel of an expression for element types and a broadcast pattern.

    Its parameters, in order: pointers of the inputs; per output a pointer and the request
    (`mx_req`); the run-time scalars as `mx::Scalar`; the number of elements; for several axes the sizes
    of all but the first, then the strides of broadcast inputs that are not 0 or 1.

    Parameters
    ----------
    name : str
        A C identifier.
    inputs, outputs : sequence of int
        Type codes.

    Raises
    ------
    TypeError  an element type has no elementwise computation
    """
    casts = [step.argument for step in expression.instructions if step.opcode is Opcode.CAST]
    for code in (*inputs, *outputs, *casts):
        if code not in names.STORAGE:
            raise TypeError(f"[expression] no elementwise computation in {dtypes.name(code)}")
    return _Writer(name, expression, tuple(inputs), tuple(outputs), layout).kernel()


class _Writer:
    def __init__(
        self,
        name: str,
        expression: Expression,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        layout: Layout,
    ) -> None:
        self.name, self.expression, self.layout = name, expression, layout
        self.inputs, self.outputs = inputs, outputs
        self.compute = compute_dtype(inputs or outputs)
        self.scalars = range(expression.n_scalars)
        read = {v for step in expression.instructions for v in step.operands} | set(expression.outputs)
        self.read = [i for i in range(expression.n_inputs) if i in read]
        self.single = [i for i in self.read if layout.single(i)]
        self.walked = [i for i in self.read if not layout.single(i)]
        sizes = [dtypes.itemsize(c) for c in (*(inputs[i] for i in self.walked), *outputs)]
        self.pack = max(1, VECTOR_BYTES // max(sizes, default=VECTOR_BYTES)) if layout.flat else 1

    def kernel(self) -> KernelSource:
        loop = self._flat_loop() if self.layout.flat else self._strided_loop()
        text = "\n".join(
            [
                f"// {self.name}: {_types(self.inputs)} to {_types(self.outputs)}",
                f'#include "{HEADER}"',
                "",
                f"using Value = {names.COMPUTE[self.compute]};",
                f"using Index = mx::{'uint64' if self.layout.wide else 'uint32'};",
                "",
                *write_function("compute", self.expression, self.compute, self.read),
                "",
                f'extern "C" __global__ void __launch_bounds__({BLOCK})',
                f"{self.name}({', '.join(self._parameters())}) {{",
                *(f"  const Value s{i} = mx::convert<Value>(double(scalar{i}));" for i in self.scalars),
                *(f"  const Value v{i} = mx::convert<Value>(x{i}[0]);" for i in self.single),
                "  const Index step = Index(gridDim.x) * blockDim.x;",
                "  Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x;",
                *loop,
                "}",
                "",
            ]
        )
        return KernelSource(self.name, text, self.pack)

    def _compute(self, read: dict[int, str], results: Sequence[str]) -> str:
        arguments = [read[i] for i in self.read] + [f"s{i}" for i in self.scalars] + list(results)
        return f"compute({', '.join(arguments)});"

    # ---- parameters ----

    def _parameters(self) -> list[str]:
        parameters = [f"const {names.STORAGE[c]}* x{i}" for i, c in enumerate(self.inputs)]
        for o, c in enumerate(self.outputs):
            parameters += [f"{names.STORAGE[c]}* y{o}", f"int request{o}"]
        parameters += [f"mx::Scalar scalar{i}" for i in self.scalars]
        parameters.append("Index n")
        if not self.layout.flat:
            parameters += [f"Index size{axis}" for axis in range(1, len(self.layout.sizes))]
            parameters += [f"Index stride{i}_{axis}" for i, axis in strided_axes(self.layout)]
        return parameters

    # ---- loops ----

    def _elements(self, index: dict[int, str], at: str, indent: str) -> list[str]:
        """Load, compute and store one element per tensor."""
        read = {i: f"v{i}" for i in self.single}
        read |= {i: f"mx::convert<Value>(x{i}[{index[i]}])" for i in self.walked}
        results = [f"r{o}" for o in range(len(self.outputs))]
        return [
            f"{indent}Value {', '.join(results)};",
            f"{indent}{self._compute(read, results)}",
            *(f"{indent}mx::store(y{o}, {at}, request{o}, r{o});" for o in range(len(self.outputs))),
        ]

    def _flat_loop(self) -> list[str]:
        tail = [
            "  for (; i < n; i += step) {",
            *self._elements({i: "i" for i in self.walked}, "i", "    "),
            "  }",
        ]
        if self.pack == 1:
            return tail
        pointers = [f"x{i}" for i in self.walked] + [f"y{o}" for o in range(len(self.outputs))]
        test = " && ".join(f"mx::packable<{self.pack}>({p})" for p in pointers)
        read = {i: f"v{i}" for i in self.single}
        read |= {i: f"mx::convert<Value>(p{i}.at[k])" for i in self.walked}
        outputs = range(len(self.outputs))
        return [
            f"  if ({test}) {{",
            f"    const Index packs = n / {self.pack};",
            "    for (Index j = i; j < packs; j += step) {",
            *(f"      const auto p{i} = mx::load_pack<{self.pack}>(x{i}, j);" for i in self.walked),
            *(f"      mx::Pack<Value, {self.pack}> r{o};" for o in outputs),
            "#pragma unroll",
            f"      for (int k = 0; k < {self.pack}; ++k) {self._compute(read, [f'r{o}.at[k]' for o in outputs])}",
            *(f"      mx::store_pack(y{o}, j, request{o}, r{o});" for o in outputs),
            "    }",
            f"    i += packs * {self.pack};",
            "  }",
            *tail,
        ]

    def _strided_loop(self) -> list[str]:
        layout = self.layout
        partial = [i for i in self.walked if not layout.whole(i)]
        used = {axis for i in partial for axis, stride in enumerate(layout.strides[i]) if stride}
        lines = ["  for (; i < n; i += step) {"]
        rest = "i"
        for axis in range(len(layout.sizes) - 1, min(used, default=0) - 1, -1):
            if axis in used:
                lines.append(f"    const Index i{axis} = {rest}" + (f" % size{axis};" if axis else ";"))
            rest = f"{rest} / size{axis}"
        index = {i: "i" for i in self.walked}
        for i in partial:
            strides = enumerate(layout.strides[i])
            terms = [f"i{a}" if s == 1 else f"i{a} * stride{i}_{a}" for a, s in strides if s]
            index[i] = " + ".join(terms)
        return [*lines, *self._elements(index, "i", "    "), "  }"]


def write_function(name: str, expression: Expression, compute: int, read: Sequence[int]) -> list[str]:
    """Lines of a device function of one element: the inputs that are read, scalars, results.

    Parameters
    ----------
    compute : int
        Type code in which it computes; `Value` of the kernel's text.
    read : sequence of int
        Inputs that are its parameters.
    """
    e = expression
    scalars = [f"s{i}" for i in range(e.n_scalars)]
    values = [f"v{i}" for i in range(e.n_inputs)] + scalars
    values += [names.literal(c, compute) for c in e.constants]
    body = []
    for i, step in enumerate(e.instructions):
        operands = [values[v] for v in step.operands]
        # `- -1.0f` must not become a decrement
        operands = [f"({x})" if x.startswith("-") else x for x in operands]
        body.append(f"  const Value t{i} = {names.call(step.opcode, step.argument, operands, compute)};")
        values.append(f"t{i}")
    arguments = [f"Value v{i}" for i in read] + [f"Value {s}" for s in scalars]
    arguments += [f"Value& r{o}" for o in range(len(e.outputs))]
    body += [f"  r{o} = {values[v]};" for o, v in enumerate(e.outputs)]
    return [f"__device__ inline void {name}({', '.join(arguments)}) {{", *body, "}"]


def _types(codes: tuple[int, ...]) -> str:
    return ", ".join(map(dtypes.name, codes)) or "nothing"


def strided_axes(layout: Layout) -> list[tuple[int, int]]:
    """(input, axis) of the strides that are kernel arguments, in order."""
    return [
        (i, axis)
        for i, strides in enumerate(layout.strides)
        if not layout.whole(i)
        for axis, stride in enumerate(strides)
        if stride > 1
    ]
