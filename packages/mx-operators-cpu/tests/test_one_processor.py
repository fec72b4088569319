# SPDX-License-Identifier: Apache-2.0
"""Teams of threads that share a processor, as they do beside other programs."""

import os
import subprocess
import sys
from pathlib import Path

import layer_plans
import pytest

#: prints the milliseconds of processor time that a gradient takes
GRADIENT = """
import os, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import ml_dtypes, numpy as np, layer_plans
from mx_core import operators
dtype, images = np.dtype(sys.argv[1]), int(sys.argv[2])
op = operators.get("_backward_Convolution")
p = op.Param.parse(
    {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "num_filter": 16, "no_bias": False}, op=op.name
)
shapes = [(images, 16, 14, 14), (images, 16, 28, 28), (16, 16, 3, 3)]
inputs = [np.full(shape, 0.5, dtype) for shape in shapes]
outputs = [np.zeros(shape, dtype) for shape in (*shapes[1:], (16,))]
plan = layer_plans.prepare(op, p, inputs, outputs)
def run(times):
    for _ in range(times):
        layer_plans.run(plan, inputs, outputs, threads=2)
run(3)
begin = time.process_time()
run(50)
print((time.process_time() - begin) * 1e3 / 50)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be kept on one processor")
@pytest.mark.parametrize("images", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_of_filters_do_not_wait_with_the_processor(dtype: str, images: int) -> None:
    """oneDNN's threads wait for each other in a loop, which took a time slice of 4 ms on a shared processor."""
    if dtype == "bfloat16" and not layer_plans.BFLOAT16_KERNELS:
        pytest.skip("what is converted to float32 and back takes longer than that")
    done = subprocess.run(
        [sys.executable, "-c", GRADIENT, dtype, str(images)], capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "2"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.5
