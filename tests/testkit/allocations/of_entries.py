# SPDX-License-Identifier: Apache-2.0
"""Runs the recorded call of every native entry that makes a plan, and prints which allocate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from counting import Counter, count

from mx_core import dtypes
from mx_operators_cpu.library import native

CALLS = Path(__file__).parents[3] / "packages" / "mx-operators-cpu" / "tests" / "native_calls.json"


def _value(x: Any) -> Any:
    if isinstance(x, dict):
        return bytes.fromhex(x["hex"])
    return [_value(y) for y in x] if isinstance(x, list) else x


def _tensors(specs: Any) -> list[Any]:
    return [(tuple(shape), dtype) for shape, dtype in specs]


def _with_object(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options of windows as the object that an entry takes."""
    kind = native.PoolOptions if name.startswith("pool") else native.ConvolutionOptions
    keys = "kernel stride dilate pad groups channels_last pool_type count_include_pad p_value".split()
    made = kind(**{key: options.pop(key) for key in keys if key in options})
    return {"convolution" if name.startswith("Fused") else "options": made, **options}


def plan_of(name: str, call: dict[str, Any]) -> Any:
    """The plan of a recorded call; None where the entry makes something else."""
    options = {key: _value(x) for key, x in call["options"].items()}
    given = options.pop("given", [])
    if "kernel" in options and name.startswith(("pooling", "convolution", "deconvolution", "FusedLayer")):
        options = _with_object(name, options)
    named = {kind: _tensors(call[kind]) for kind in ("inputs", "outputs") if kind in call}
    function, _, method = name.partition(".")
    made = getattr(native, function)(**named, **options)
    if method:
        made = getattr(made, method)(*(_tensors(g) for g in given))
    return made if type(made).__name__ == "PyCapsule" else None


def ones(specs: Any) -> list[Any]:
    """Arrays of ones, with the code of the type where NumPy has none."""
    made = []
    for shape, dtype in specs:
        array = np.ones(shape, dtypes.numpy_dtype(dtype))
        made.append((array.view(np.uint16), dtype) if array.dtype.kind == "V" else array)
    return made


def main() -> None:
    counter, found, ran = Counter(), {}, 0
    for name, call in json.loads(CALLS.read_text()).items():
        plan = plan_of(name, call)
        if plan is None:
            continue
        ran += 1
        if allocating := count(counter, plan, ones(call.get("inputs", ())), ones(call.get("outputs", ()))):
            found[name] = allocating
    print(json.dumps({"ran": ran, "found": found}))


main()
