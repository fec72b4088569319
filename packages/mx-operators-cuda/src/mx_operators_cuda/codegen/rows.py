# SPDX-License-Identifier: Apache-2.0
"""Kernels over rows: values folded from a row's elements, then the row written anew.

A row is the elements along one axis. Each fold, and the result, is an expression of the inputs, the
position in the row and the folds before it; softmax is two folds and a result. A block works on a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mx_core.expression import Expression, Opcode
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.reduction import start
from mx_operators_cuda.codegen.source import BLOCK, HEADER, KernelSource, write_function


@dataclass(frozen=True)
class RowTensor:
    """A tensor of a kernel over rows.

    Parameters
    ----------
    dtype : int
        Type code.
    per_row : bool
        It has one element per row instead of the row's.
    """

    dtype: int
    per_row: bool = False


def write_rows(
    name: str,
    compute: int,
    inputs: Sequence[RowTensor],
    output: RowTensor,
    folds: Sequence[tuple[Opcode, Expression]],
    result: Expression,
    block: int = BLOCK,
    scalars: int = 0,
) -> KernelSource:
    """The kernel.

    Its parameters, in order: pointers of the inputs; pointer of the output and the request; number of rows;
    elements of a row; elements from one of a row to the next; run-time scalars. All numbers are 64 bits wide.

    Parameters
    ----------
    compute : int
        Type code in which everything is computed.
    folds : sequence of (opcode, expression)
        ADD, MUL, MAXIMUM or MINIMUM of what the expression makes of the inputs, the scalars, the position
        and the folds so far.
    result : Expression
        Of the inputs, the scalars, the position and all folds. For an output with one element per row it may use only
        folds and inputs of that kind.
    block : int
        Threads that work on a row, a power of two.
    """
    written = names.STORAGE[output.dtype]
    pointers = [f"const {names.STORAGE[t.dtype]}* x{i}" for i, t in enumerate(inputs)]
    once = [i for i, t in enumerate(inputs) if t.per_row]
    numbers = [f"mx::uint64 {n}" for n in ("rows", "extent", "stride")]
    numbers += [f"double scalar{i}" for i in range(scalars)]
    functions, body = [], []
    for j, (opcode, expression) in enumerate(folds):
        functions += write_function(f"load{j}", expression, compute, range(expression.n_inputs))
        combined = names.call(opcode, 0, ["a", "b"], compute)
        functions.append(f"__device__ inline Value fold{j}(Value a, Value b) {{ return {combined}; }}")
        body += _fold(j, opcode, inputs, compute, scalars)
    functions += write_function("result", result, compute, range(result.n_inputs))
    text = [
        f'#include "{HEADER}"',
        "",
        f"using Value = {names.COMPUTE[compute]};",
        "",
        *functions,
        "",
        f'extern "C" __global__ void __launch_bounds__({block})',
        f"{name}({', '.join([*pointers, f'{written}* y', 'int request', *numbers])}) {{",
        *([f"  __shared__ Value partial[{block}];"] if folds else []),
        "  for (mx::uint64 row = blockIdx.x; row < rows; row += gridDim.x) {",
        "    const mx::uint64 base = row / stride * extent * stride + row % stride;",
        *(f"    const Value v{i} = mx::convert<Value>(x{i}[row]);" for i in once),
        *(f"    {line}" for line in body),
        *(f"    {line}" for line in _write(inputs, output, len(folds), scalars)),
        "  }",
        "}",
        "",
    ]
    return KernelSource(name, "\n".join(text), 1, block)


def _values(inputs: Sequence[RowTensor], folds: int, scalars: int) -> list[str]:
    """Arguments of a function of one element."""
    loaded = [
        f"v{i}" if t.per_row else f"mx::convert<Value>(x{i}[base + k * stride])" for i, t in enumerate(inputs)
    ]
    return [*loaded, *_scalars(scalars), "Value(k)", *(f"f{j}" for j in range(folds))]


def _scalars(count: int) -> list[str]:
    return [f"Value(scalar{i})" for i in range(count)]


def _fold(j: int, opcode: Opcode, inputs: Sequence[RowTensor], compute: int, scalars: int) -> list[str]:
    return [
        f"Value folded{j} = {start(opcode, compute)};",
        "for (mx::uint64 k = threadIdx.x; k < extent; k += blockDim.x) {",
        "  Value r;",
        f"  load{j}({', '.join(_values(inputs, j, scalars))}, r);",
        f"  folded{j} = fold{j}(folded{j}, r);",
        "}",
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


def _write(inputs: Sequence[RowTensor], output: RowTensor, folds: int, scalars: int) -> list[str]:
    if output.per_row:
        arguments = [f"v{i}" if t.per_row else "Value(0)" for i, t in enumerate(inputs)]
        arguments += [*_scalars(scalars), "Value(0)", *(f"f{j}" for j in range(folds))]
        return [
            "if (threadIdx.x == 0) {",
            "  Value r;",
            f"  result({', '.join(arguments)}, r);",
            "  mx::store(y, row, request, r);",
            "}",
        ]
    return [
        "for (mx::uint64 k = threadIdx.x; k < extent; k += blockDim.x) {",
        "  Value r;",
        f"  result({', '.join(_values(inputs, folds, scalars))}, r);",
        "  mx::store(y, base + k * stride, request, r);",
        "}",
    ]
