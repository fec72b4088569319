# SPDX-License-Identifier: Apache-2.0
"""The ledger of results that were verified on a GPU, with the hashes of their sources.

The ledger is a JSON list of `Entry`. A kernel is *verified* when an entry has the hash of its present
source (the device functions included), *stale* when entries have only other hashes, else *never*.
`python -m mx_operators_cuda.ledger` prints the states by the ledger that the package brings, or another `FILE`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from mx_core import dtypes, operators
from mx_core import expression as X
from mx_core.context import gpu
from mx_core.errors import FileFormatError
from mx_core.expression import Expression
from mx_core.kernels import KernelCall, TensorSpec
from mx_core.operator import ReferenceContext
from mx_operators_cuda import convolution, norms, reduce
from mx_operators_cuda.codegen.reduction import runs_of
from mx_operators_cuda.codegen.rows import At
from mx_operators_cuda.codegen.source import headers, included
from mx_operators_cuda.elementwise import kernel
from mx_operators_cuda.folds import Rows
from mx_operators_cuda.launch import Kind, Launch

Shape = tuple[int, ...]
#: the ledger of this version of the package
SHIPPED = Path(__file__).with_name("gpu-ledger.json")
#: what no sample is about, and no GPU has run
UNCONFIRMED = (
    "products of cuBLAS and cuBLASLt", "layers of cuDNN", "mixed precision", "captured steps",
    "custom operators with CuPy", "sums by NCCL",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One run on a GPU.

    Parameters
    ----------
    kernel : str
        Name of a sample.
    source : str
        SHA-256 of its source then, 64 hexadecimal digits.
    gpu, driver, nvrtc : str
        Name of the device and versions.
    date : str
        `2026-01-31`.
    max_relative_error : float
        ‖out − reference‖ / ‖reference‖ against float64.
    gigabytes_per_second : float
        Bytes read and written, over the time of a run, of many enqueued together.
    """

    kernel: str
    source: str
    gpu: str
    driver: str
    nvrtc: str
    date: str
    max_relative_error: float
    gigabytes_per_second: float


@dataclass(frozen=True)
class Sample:
    """Kernels the ledger is about, and what they should compute.

    Parameters
    ----------
    inputs, outputs : tuple of TensorSpec
    launches : tuple of Launch
    reference : callable
        From arrays to the results.
    scalars : tuple of float
        Run-time scalars to give it.
    scratch : tuple of int
        Bytes of scratch memory.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    launches: tuple[Launch, ...]
    reference: Callable[[Sequence[Any]], Sequence[Any]]
    scalars: tuple[float, ...] = ()
    scratch: tuple[int, ...] = ()


@lru_cache(maxsize=1)
def samples() -> dict[str, Sample]:
    """Memory-bound, compute-bound, broadcast, several outputs, reductions, layers; the type ends the name."""
    big, row = (4096, 8192), (8192,)
    gelu = X.trace(lambda x: x * 0.5 * (1 + X.erf(x * 0.7071067811865476)), 1)
    sgd = X.trace(lambda w, g, m, lr: (w - lr * (m * 0.9 + g), m * 0.9 + g), 3, 1)
    made = {
        f"add {name}": _elementwise(X.trace(lambda x, y: x + y, 2), (big, big), name)
        for name in ("float32", "float16", "bfloat16", "int32")
    }
    made |= {f"gelu {name}": _elementwise(gelu, (big,), name) for name in ("float32", "float16")}
    made["bias float16"] = _elementwise(X.trace(lambda x, b: X.relu(x + b), 2), (big, row), "float16")
    made["momentum float32"] = _elementwise(sgd, (big, big, big), "float32", (0.5,))
    for axis, what in ((1, "rows"), (0, "columns"), (None, "all")):
        made[f"mean of {what} float32"] = _mean(big, axis, "float32")
    made |= {f"convolution {name}": _convolution(name) for name in ("float32", "float16")}
    made["layer norm float16"] = _layer_norm(big, "float16")
    return made


def _convolution(name: str) -> Sample:
    """A layer of a residual network: 64 filters of 3 × 3 on 16 images."""
    code, op = dtypes.code(name), operators.get("Convolution")
    p = op.Param.parse({"kernel": (3, 3), "num_filter": 64, "pad": (1, 1), "no_bias": True})
    images, filters = (16, 64, 56, 56), (64, 64, 3, 3)
    one, two = (1, 1), (3, 3)
    shape = convolution.Shape(16, 1, 64, 64, (56, 56), (56, 56), two, one, one, one, False)
    launches = convolution.forward(shape, code, (Kind.INPUT, 0), (Kind.INPUT, 1), None, (Kind.OUTPUT, 0))

    def reference(arrays: Sequence[Any]) -> Sequence[Any]:
        return op.reference(p, arrays, ReferenceContext())

    inputs = (TensorSpec(images, code), TensorSpec(filters, code))
    return Sample(inputs, (TensorSpec(images, code),), tuple(launches), reference)


def _layer_norm(shape: Shape, name: str) -> Sample:
    code, op = dtypes.code(name), operators.get("LayerNorm")
    p = op.Param.parse({})
    inputs = (TensorSpec(shape, code), *(TensorSpec(shape[1:], code),) * 2)
    statistics = TensorSpec((shape[0], 1), 0)
    outputs = (TensorSpec(shape, code), statistics, statistics)
    call = KernelCall(op, p, inputs, outputs, gpu())
    launches, scratch = norms.normalizing(call, Rows.along(shape, 1), At.POSITION, p.eps)

    def reference(arrays: Sequence[Any]) -> Sequence[Any]:
        return op.reference(p, arrays, ReferenceContext())

    return Sample(inputs, outputs, tuple(launches), reference, (), tuple(scratch))


def _elementwise(
    expression: Expression, shapes: tuple[Shape, ...], name: str, scalars: tuple[float, ...] = ()
) -> Sample:
    code = dtypes.code(name)
    inputs = tuple(TensorSpec(shape, code) for shape in shapes)
    outputs = (TensorSpec(shapes[0], code),) * len(expression.outputs)
    launch = kernel("sample", expression, inputs, outputs)
    assert launch is not None

    def reference(arrays: Sequence[Any]) -> Sequence[Any]:
        return X.evaluate(expression, arrays, scalars)

    return Sample(inputs, outputs, (launch,), reference, scalars)


def _mean(shape: Shape, axis: int | None, name: str) -> Sample:
    code = dtypes.code(name)
    axes = tuple(range(len(shape))) if axis is None else (axis,)
    kept = tuple(size for i, size in enumerate(shape) if i not in axes) or (1,)
    launches, scratch = reduce.launches("sample", reduce.REDUCTIONS["mean"], runs_of(shape, axes), code)

    def reference(arrays: Sequence[Any]) -> Sequence[Any]:
        return [arrays[0].mean(axes).reshape(kept)]

    inputs, outputs = (TensorSpec(shape, code),), (TensorSpec(kept, code),)
    return Sample(inputs, outputs, tuple(launches), reference, (), tuple(scratch))


def fingerprint(sample: Sample) -> str:
    """SHA-256 of everything NVRTC reads for a sample."""
    sources = [launch.source.text for launch in sample.launches]
    names = sorted({name for text in sources for name in included(text)})
    texts = [*(headers()[name] for name in names), *sources]
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def load(path: Path) -> tuple[Entry, ...]:
    """The entries of a ledger file.

    Raises
    ------
    FileFormatError  it is no list of complete entries about known samples
    """
    try:
        rows = json.loads(path.read_text())
    except ValueError as error:
        raise FileFormatError(f"[ledger] {path}: {error}") from None
    if not isinstance(rows, list):
        raise FileFormatError(f"[ledger] {path}: expected a list, got {type(rows).__name__}")
    return tuple(_entry(path, i, row) for i, row in enumerate(rows))


def record(path: Path, entry: Entry) -> None:
    """Puts an entry into a ledger file in place of older ones of the same sample on the same GPU."""
    kept = [row for row in load(path) if (row.kernel, row.gpu) != (entry.kernel, entry.gpu)]
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps([asdict(row) for row in (*kept, entry)], indent=1) + "\n")
    fresh.replace(path)


def summary() -> str:
    """How many samples a GPU has confirmed, by the ledger that the package brings."""
    found = list(states(load(SHIPPED)).values())
    counts = ", ".join(f"{found.count(state)} {state}" for state in ("verified", "stale", "never"))
    others = ", ".join(UNCONFIRMED)
    return (
        f"samples of kernels that a GPU has run: {counts}; all other kernels: none; no GPU has run {others}"
    )


def _entry(path: Path, position: int, row: object) -> Entry:
    where = f"[ledger] {path}: entry {position}"
    wanted = {field.name for field in fields(Entry)}
    if not isinstance(row, dict) or set(row) != wanted:
        got = sorted(row) if isinstance(row, dict) else type(row).__name__
        raise FileFormatError(f"{where}: expected the fields {sorted(wanted)}, got {got}")
    for field in fields(Entry):
        kind = (int, float) if field.type == "float" else str
        if not isinstance(row[field.name], kind) or isinstance(row[field.name], bool):
            raise FileFormatError(f"{where}: {field.name}: expected a {field.type}, got {row[field.name]!r}")
    entry = Entry(**row)
    if entry.kernel not in samples():
        raise FileFormatError(f"{where}: unknown sample {entry.kernel!r}")
    if not re.fullmatch("[0-9a-f]{64}", entry.source):
        raise FileFormatError(f"{where}: source: expected 64 hexadecimal digits, got {entry.source!r}")
    try:
        date.fromisoformat(entry.date)
    except ValueError:
        raise FileFormatError(f"{where}: date: expected 2026-01-31, got {entry.date!r}") from None
    return entry


def states(entries: Iterable[Entry]) -> dict[str, str]:
    """Sample -> `verified`, `stale` or `never`."""
    seen: dict[str, set[str]] = {}
    for entry in entries:
        seen.setdefault(entry.kernel, set()).add(entry.source)
    return {
        name: "verified"
        if fingerprint(sample) in seen.get(name, ())
        else "stale"
        if name in seen
        else "never"
        for name, sample in samples().items()
    }


if __name__ == "__main__":
    for name, state in states(load(Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED)).items():
        print(f"{state:9} {name}")
