# SPDX-License-Identifier: Apache-2.0
"""Kernels that draw random numbers, as CUDA C++ text.

A thread makes the numbers of one Philox counter (mx_core/philox.hpp): four, or two of eight bytes. So
what an element becomes depends on the counters the operator reserved, and on its position, alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from mx_core import dtypes
from mx_core.expression import compute_dtype
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.source import BLOCK, HEADER, PHILOX, KernelSource

_FLOAT16, _BFLOAT16 = dtypes.code("float16"), dtypes.code("bfloat16")
_FLOAT64, _INT64 = dtypes.code("float64"), dtypes.code("int64")
#: type code -> what makes a unit uniform of a word
_UNITS = {_FLOAT16: "uniform16", _BFLOAT16: "uniform_bfloat16"}
#: product and sum that are each rounded, as on the CPU
_SCALED = {False: "__fadd_rn(__fmul_rn({0}, {1}), {2})", True: "__dadd_rn(__dmul_rn({0}, {1}), {2})"}


def per_counter(code: int, distribution: str) -> int:
    """Numbers of a type that one counter yields."""
    return 2 if code == _FLOAT64 or distribution == "integers" else 4


def write_draw(name: str, distribution: str, code: int) -> KernelSource:
    """A kernel that fills an output with random numbers.

    Its parameters, in order: pointer of the output and the request; key and first counter as `mx::Counter`; the
    run-time scalars as `mx::Scalar` (uniform: low, high; normal: mean, deviation; exponential: rate), for integers
    low and the size of the interval as uint64; the number of elements.

    Parameters
    ----------
    distribution : str
        `uniform`, `normal`, `exponential` or `integers`.
    code : int
        Type code of the output.
    """
    count = per_counter(code, distribution)
    compute = _INT64 if distribution == "integers" else compute_dtype((code,))
    scalars = {"uniform": ["low", "high"], "normal": ["mean", "deviation"], "exponential": ["rate"]}
    given = [f"mx::Scalar given_{s}" for s in scalars.get(distribution, ())]
    head = [f"const double {s} = given_{s};" for s in scalars.get(distribution, ())]
    body = [
        f"Value v[{count}];",
        *_DRAWS[distribution](code, count),
        f"for (int k = 0; k < {count}; ++k) {{",
        f"  if (b * {count} + k < n) mx::store(y, b * {count} + k, request, v[k]);",
        "}",
    ]
    outputs = [f"{names.STORAGE[code]}* y", "int request"]
    given = given or ["mx::uint64 low", "mx::uint64 range"]
    return _kernel(name, compute, outputs, given, count, body, head)


def write_dropout(name: str, code: int, scale: float) -> KernelSource:
    """A kernel of dropout.

    Its parameters, in order: pointer of the data; pointers and requests of the result and of the mask; key
    and first counter; of 24 random bits the least number that keeps an element; the number of elements.

    Parameters
    ----------
    scale : float
        What a kept element is multiplied with.
    """
    compute, stored = compute_dtype((code,)), names.STORAGE[code]
    body = [
        "for (int k = 0; k < 4; ++k) {",
        "  const Index i = b * 4 + k;",
        "  if (i >= n) break;",
        f"  const Value kept = (block.words[k] >> 8) >= threshold ? {names.literal(scale, compute)} : Value(0);",
        f"  const Value mask = mx::cast<{stored}>(kept);",
        "  const Value value = mx::convert<Value>(x[i]) * mask;",
        "  mx::store(y0, i, request0, value);",
        "  mx::store(y1, i, request1, mask);",
        "}",
    ]
    tensors = [f"const {stored}* x", f"{stored}* y0", "int request0", f"{stored}* y1", "int request1"]
    return _kernel(name, compute, tensors, ["mx::uint32 threshold"], 4, body)


def _kernel(
    name: str, compute: int, tensors: Sequence[str], given: Sequence[str], count: int, body: Sequence[str],
    head: Sequence[str] = (),
) -> KernelSource:  # fmt: skip
    parameters = [*tensors, "mx::Counter given_key", "mx::Counter given_counter", *given, "mx::uint64 n"]
    text = [
        f'#include "{PHILOX}"',
        f'#include "{HEADER}"',
        "",
        f"using Value = {names.COMPUTE[compute]};",
        "using Index = mx::uint64;",
        "",
        f'extern "C" __global__ void __launch_bounds__({BLOCK})',
        f"{name}({', '.join(parameters)}) {{",
        "  const mx::uint64 key = given_key, counter = given_counter;",
        *(f"  {line}" for line in head),
        "  const Index step = Index(gridDim.x) * blockDim.x;",
        f"  const Index blocks = n / {count} + (n % {count} != 0);",
        "  for (Index b = Index(blockIdx.x) * blockDim.x + threadIdx.x; b < blocks; b += step) {",
        "    const mx::philox::Block block = mx::philox::block(key, counter + b);",
        *(f"    {line}" for line in body),
        "  }",
        "}",
        "",
    ]
    return KernelSource(name, "\n".join(text), 1)


def _word64(k: object) -> str:
    return f"mx::philox::join(block.words[2 * ({k})], block.words[2 * ({k}) + 1])"


def _unit(code: int, unit: str) -> str:
    """The k-th uniform number in [0, 1)."""
    if code == _FLOAT64:
        return f"mx::philox::uniform64({_word64('k')})"
    return f"mx::philox::{unit}(block.words[k])"


def _uniform(code: int, count: int) -> list[str]:
    unit = _unit(code, _UNITS.get(code, "uniform32"))
    scaled = _SCALED[code == _FLOAT64].format(unit, "Value(high - low)", "Value(low)")
    return [f"for (int k = 0; k < {count}; ++k) v[k] = {scaled};"]


def _normal(code: int, count: int) -> list[str]:
    if code == _FLOAT64:
        lines = [f"mx::philox::normal64({_word64(0)}, {_word64(1)}, v[0], v[1]);"]
    else:
        lines = [
            f"mx::philox::normal32(block.words[{k}], block.words[{k + 1}], v[{k}], v[{k + 1}]);"
            for k in (0, 2)
        ]
    number = f"mx::cast<{names.STORAGE[code]}>(v[k])" if code in _UNITS else "v[k]"
    scaled = _SCALED[code == _FLOAT64].format(number, "Value(deviation)", "Value(mean)")
    return [*lines, f"for (int k = 0; k < {count}; ++k) v[k] = {scaled};"]


def _exponential(code: int, count: int) -> list[str]:
    unit = _unit(code, "uniform32")
    return [f"for (int k = 0; k < {count}; ++k) v[k] = -mx::log1p(-{unit}) / Value(rate);"]


def _integers(code: int, count: int) -> list[str]:
    return [f"for (int k = 0; k < {count}; ++k) v[k] = mx::philox::below({_word64('k')}, range) + low;"]


_DRAWS = {"uniform": _uniform, "normal": _normal, "exponential": _exponential, "integers": _integers}
