# SPDX-License-Identifier: Apache-2.0
"""On a GPU: everything that also runs on the fake one, and the sample kernels against float64.

Prints the lines of the ledger; `python -m mx_operators_cuda.confirm` runs all of it and keeps them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import dtypes
from mx_operators_cuda import ledger
from mx_operators_cuda.confirm import RUN_ON_GPU
from testkit.device_memory import GpuBench, Tensor

#: ‖out - reference‖ / ‖reference‖
LIMIT = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2, "int32": 0.0}


@pytest.mark.gpu
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", RUN_ON_GPU)
def test_on_gpu(name: str, gpu: Any) -> None:
    path = Path(__file__).parent / "on_gpu" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(path)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]


def seconds(bench: Any, run: Any) -> float:
    """Time of one run of many enqueued together, after one alone, which says how many take a second at most."""
    start = time.perf_counter()
    run()
    bench.wait()
    times = max(2, min(50, int(1 / (time.perf_counter() - start))))
    start = time.perf_counter()
    for _ in range(times):
        run()
    bench.wait()
    return (time.perf_counter() - start) / times


@pytest.mark.gpu
@pytest.mark.parametrize("name", ledger.samples())
def test_sample(name: str, gpu: Any) -> None:
    from mx_operators_cuda import _native, driver, nvrtc
    from mx_operators_cuda.launch import make_plan

    bench, sample = GpuBench(), ledger.samples()[name]
    kind, *_, dtype = name.split()
    plan = make_plan("sample", bench.context, sample.inputs, sample.outputs, sample.launches,
                     n_scalars=len(sample.scalars), scratch=sample.scratch)  # fmt: skip
    rng = np.random.default_rng()
    scale = 100 if dtype == "int32" else 1
    arrays = [
        (rng.standard_normal(s.shape, np.float32) * scale + (kind == "mean")).astype(
            dtypes.numpy_dtype(s.dtype)
        )
        for s in sample.inputs
    ]
    blank = [np.full(s.shape, 77, dtypes.numpy_dtype(s.dtype)) for s in sample.outputs]
    outputs = bench.run(plan, arrays, blank, None, sample.scalars)
    # a strip is enough for the slow reference of erf
    rows = slice(0, 64) if kind == "gelu" else slice(None)
    given = [np.asarray(x[rows] if x.ndim == 2 else x).astype(np.float64) for x in arrays]
    error = 0.0
    for out, wanted in zip(outputs, sample.reference(given), strict=True):
        found = out[rows].astype(np.float64)
        assert np.isfinite(found).all()
        error = max(error, float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted)))
    assert error <= LIMIT[dtype]
    blocks = [bench.copy_in(x) for x in (*arrays, *blank)]
    tensors = (Tensor * len(blocks))(*map(bench.tensor, (*arrays, *blank), blocks))
    spent = seconds(bench, lambda: bench.launch(plan, tensors, len(arrays), [1] * len(blank), sample.scalars))
    moved = sum(x.nbytes for x in (*arrays, *blank))
    for block in blocks:
        bench.memory.free(block)
    entry = ledger.Entry(
        name, ledger.fingerprint(sample), _native.Device.model(0), driver.driver().version,
        ".".join(map(str, nvrtc.version())), date.today().isoformat(), error, round(moved / spent / 1e9),
    )  # fmt: skip
    print(json.dumps(asdict(entry)))
