# SPDX-License-Identifier: Apache-2.0
"""Every native entry refuses signatures that do not fit, and what it accepts stays within its arrays.

From a valid call of each entry others are made: tensors too few and too many, of other ranks, sizes and element types,
empty and impossibly large ones, and other numbers among the options. A refusal is an error or None. A plan that is
made all the same is run on arrays of that signature between guards. Each entry has a process of its own, so that a
crash names it: a fork of one that has loaded the library.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mx_operators_cpu.library import native
from testkit.forked import Forks

#: entries that make no plan, and those that take plans or what other entries made
OTHERS = {
    "instruction_set", "onednn_version", "threads", "composite_plan", "FusedLayer.pack", "FusedLayer.packed_size",
    "FusedLayer.packed_format", "RecurrentStack.pack", "RecurrentStack.packed",
}  # fmt: skip
#: entries of float32 and bfloat16 that compute in float64, too, by other kernels
IN_FLOAT64 = (
    "batch_norm", "batch_norm_backward", "convolution", "convolution_backward", "deconvolution",
    "deconvolution_backward", "dot_backward", "fully_connected", "fully_connected_backward", "group_norm",
    "group_norm_backward", "layer_norm", "layer_norm_backward", "matmul", "pooling", "pooling_backward", "softmax",
    "softmax_backward", "softmax_output_backward",
)  # fmt: skip
CALLS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("native_calls.json").read_text())

CODE = '''
import itertools, json, math
import numpy as np
from mx_core import _native, dtypes
from mx_operators_cpu.library import native

GUARD, MOST = 4096, 1 << 22

def value(x):
    if isinstance(x, dict):
        return bytes.fromhex(x["hex"])
    return [value(y) for y in x] if isinstance(x, list) else x

def tensors(specs):
    return [(tuple(shape), dtype) for shape, dtype in specs]

def with_object(name, options):
    """Options of windows as the object that an entry takes."""
    kind = native.PoolOptions if name.startswith("pool") else native.ConvolutionOptions
    keys = ("kernel", "stride", "dilate", "pad", "groups", "channels_last", "pool_type", "count_include_pad", "p_value")
    made = kind(**{key: options.pop(key) for key in keys if key in options})
    return {"convolution" if name.startswith("Fused") else "options": made, **options}

def entry(name, call):
    """The plan, or None."""
    options = {key: value(x) for key, x in call["options"].items()}
    given = options.pop("given", [])
    if "kernel" in options and name.startswith(("pooling", "convolution", "deconvolution", "FusedLayer")):
        options = with_object(name, options)
    named = {kind: tensors(call[kind]) for kind in ("inputs", "outputs") if kind in call}
    function, _, method = name.partition(".")
    if not method:
        return getattr(native, function)(**named, **options)
    made = getattr(native, function)(**named, **options)
    return getattr(made, method)(*(tensors(g) for g in given))

def size(shape):
    return math.prod(shape)

def changed_shapes(shape):
    yield ()
    yield (*shape, 1)
    yield (*shape, 2)
    for axis, extent in enumerate(shape):
        for other in (0, 1, extent - 1, extent + 1, 2 * extent, -1, 1 << 40, 1 << 62):
            if other != extent:
                yield (*shape[:axis], other, *shape[axis + 1 :])
    if len(shape) > 1:
        yield shape[1:]
        yield (size(shape),)

def changed_values(x):
    if isinstance(x, bool):
        yield not x
    elif isinstance(x, int):
        yield from (0, 1, -1, x + 1, x - 1, 2 * x + 1, 1 << 20, 1 << 40)
    elif isinstance(x, list) and all(isinstance(y, int) for y in x):
        yield []
        yield [*x, 1]
        yield x[:-1]
        for i, y in enumerate(x):
            for other in (0, -1, y + 1, 1 << 20, 1 << 40):
                yield [*x[:i], other, *x[i + 1 :]]

def changed(call):
    for kind in ("inputs", "outputs"):
        specs = call.get(kind)
        if specs is None:
            continue
        yield {**call, kind: []}
        yield {**call, kind: [*specs, specs[0] if specs else [[1], 0]]}
        for i, (shape, dtype) in enumerate(specs):
            def instead(*spec):
                return {**call, kind: [*specs[:i], *spec, *specs[i + 1 :]]}
            yield instead()
            for other in changed_shapes(tuple(shape)):
                yield instead([list(other), dtype])
            for other in (*range(13), 13, 99, -1):
                if other != dtype:
                    yield instead([shape, other])
    options = call["options"]
    for key, x in options.items():
        for other in changed_values(x):
            yield {**call, "options": {**options, key: other}}

def run(plan, call):
    """On arrays of ones, their neighbours guarded."""
    arrays = {"inputs": [], "outputs": []}
    guards = []
    for kind in ("inputs", "outputs"):
        for shape, dtype in call.get(kind, ()):
            item = np.dtype(dtypes.numpy_dtype(dtype)).itemsize
            n = size(shape) * item
            memory = np.full(n + 2 * GUARD, 0x5A, np.uint8)
            ones = np.ones(size(shape), dtypes.numpy_dtype(dtype))
            memory[GUARD : GUARD + n] = np.frombuffer(ones.tobytes(), np.uint8)
            array = np.ndarray(shape, np.uint16 if dtype == 12 else ones.dtype, memory, GUARD)
            arrays[kind].append((array, dtype) if dtype == 12 else array)
            guards.append((memory[:GUARD], memory[GUARD + n :]))
    for request in (1, 3, 0):
        try:
            _native.run_plan(plan, arrays["inputs"], arrays["outputs"], [request] * len(arrays["outputs"]),
                             is_train=True, scalars=[0.5] * 16, threads=2)
        except Exception:
            pass
        for guard in itertools.chain(*guards):
            assert (guard == 0x5A).all(), f"written beyond an array: {call}"

def main(name, call):
    assert entry(name, call) is not None, "the recorded call is no longer valid"
    tried = refused = 0
    for other in changed(call):
        tried += 1
        print("tried", json.dumps(other), flush=True)
        try:
            plan = entry(name, other)
        except Exception:
            refused += 1
            continue
        if plan is None:
            refused += 1
            continue
        specs = [*other.get("inputs", ()), *other.get("outputs", ())]
        if type(plan).__name__ == "PyCapsule" and all(
            0 <= size(s) <= MOST and max(s, default=0) <= MOST for s, _ in specs
        ) and all(
            0 <= d < 13 for _, d in specs
        ) and "." not in name:
            run(plan, other)
    print(tried, refused)
'''


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks(CODE) as made:
        yield made


def test_every_entry_has_a_call() -> None:
    found = set()
    for name, entry in inspect.getmembers(native):
        if name.startswith("_"):
            continue
        if inspect.isclass(entry):
            found |= {f"{name}.{method}" for method in vars(entry) if not method.startswith("_")}
        elif callable(entry):
            found.add(name)
    assert found == set(CALLS) | OTHERS


def in_float64(call: dict[str, Any]) -> dict[str, Any]:
    """The same call of another element type."""
    doubles = {kind: [(shape, 1) for shape, _ in call[kind]] for kind in ("inputs", "outputs")}
    return {**call, **doubles}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "recorded") for name in sorted(CALLS)), *((name, "float64") for name in IN_FLOAT64)],
)
def test_unfit_signatures(name: str, dtype: str, forks: Forks) -> None:
    call = in_float64(CALLS[name]) if dtype == "float64" else CALLS[name]
    done = forks.run("main(name, call)", timeout=600, name=name, call=call)
    assert done.status == 0, f"{name}: {done.status} {done.output[-2600:]}"
    tried, refused = map(int, done.output.split()[-2:])
    assert 0 < refused <= tried
