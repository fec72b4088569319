# SPDX-License-Identifier: Apache-2.0
"""On a GPU: the sample kernels against float64; prints lines for the ledger."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import dtypes
from mx_core import expression as X
from mx_operators_cuda import ledger

#: ‖out − reference‖ / ‖reference‖
LIMIT = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2, "int32": 0.0}
GELU = X.trace(lambda x: x * 0.5 * (1 + X.erf(x * 0.7071067811865476)), 1)
FUNCTIONS = {
    "add": lambda x, y: (x + y,),
    "gelu": lambda x: X.evaluate(GELU, [x]),
    "bias": lambda x, b: (np.maximum(x + b, 0),),
    "momentum": lambda w, g, m: (w - 0.5 * (m * 0.9 + g), m * 0.9 + g),
}


def seconds(cupy: Any, run: Any) -> float:
    """Median time of 20 runs after 3 others, between events on the stream."""
    times = []
    for _ in range(23):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return float(np.median(times[3:]))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["add float32", "add float16", "add bfloat16", "add int32", "gelu float32",
                                  "gelu float16", "bias float16", "momentum float32"])  # fmt: skip
def test_sample(name: str, gpu: Any) -> None:
    kind, dtype = name.split()
    plan = ledger.samples()[name]
    rng = np.random.default_rng()
    scale = 100 if dtype == "int32" else 1
    arrays = [
        (rng.standard_normal(s.shape, np.float32) * scale).astype(dtypes.numpy_dtype(s.dtype))
        for s in plan.inputs
    ]
    scalars = (0.5,) * plan.n_scalars
    inputs = [gpu.asarray(x) for x in arrays]
    outputs = [gpu.full(s.shape, 77, dtypes.numpy_dtype(s.dtype)) for s in plan.outputs]
    plan.run(inputs, outputs, scalars=scalars)
    # a strip is enough for the slow reference of erf
    rows = slice(0, 64) if kind == "gelu" else slice(None)
    given = [np.asarray(x[rows] if x.ndim == 2 else x).astype(np.float64) for x in arrays]
    error = 0.0
    for out, wanted in zip(outputs, FUNCTIONS[kind](*given), strict=True):
        found = gpu.asnumpy(out)[rows].astype(np.float64)
        assert np.isfinite(found).all()
        error = max(error, float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted)))
    assert error <= LIMIT[dtype]
    moved = sum(a.nbytes for a in (*inputs, *outputs))
    speed = moved / seconds(gpu, lambda: plan.run(inputs, outputs, scalars=scalars)) / 1e9
    print(f"{name}: source {ledger.fingerprint(plan)}, error {error:.2e}, {speed:.0f} GB/s")
