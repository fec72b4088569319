# SPDX-License-Identifier: Apache-2.0
"""Plans on a GPU, real or fake, against `mx_core.expression.evaluate`.

Not collected by name: `test_fake_machine.py` runs this file on the fake driver, `test_gpu.py` on a GPU.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, gpu
from mx_core import expression as X
from mx_core.errors import MXNetError
from mx_core.kernels import KernelCall, TensorSpec
from mx_operators_cuda import generate, ledger
from mx_operators_cuda.launch import make_plan
from testkit.device_memory import GpuBench

NULL, WRITE, INPLACE, ADD = range(4)
AXPY = X.trace(lambda x, y, s: (x * s + y, x - y), 2, 1)


@pytest.fixture(scope="module", params=[0, 1], ids=["gpu0", "gpu1"])
def bench(request: Any) -> GpuBench:
    from mx_operators_cuda.driver import count

    if request.param >= count():
        pytest.skip("this machine has one GPU")
    return GpuBench(request.param)


def plan(e: Any, inputs: Any, outputs: Any, bench: GpuBench, name: str = "axpy") -> Any:
    specs = [tuple(TensorSpec(x.shape, dtypes.code(x.dtype)) for x in xs) for xs in (inputs, outputs)]
    op: Any = SimpleNamespace(name=name)
    return generate(e, KernelCall(op, None, *specs, bench.context))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "int64"])
@pytest.mark.parametrize("shapes", [((5, 7), (5, 7)), ((3, 1), (1, 4)), ((1031,), ()), ((0, 3), (3,))])
def test_numbers(dtype: str, shapes: Any, bench: GpuBench) -> None:
    rng = np.random.default_rng(1)
    inputs = [rng.integers(0, 9, s).astype(dtype) for s in shapes]
    wanted = X.evaluate(AXPY, inputs, (3.0,))
    before = [np.full_like(w, 3) for w in wanted]
    made = plan(AXPY, inputs, wanted, bench)
    expected = {NULL: before[0], ADD: wanted[0] + before[0]}
    for request in (NULL, WRITE, INPLACE, ADD):
        first, second = bench.run(made, inputs, before, [request, WRITE], [3.0])
        np.testing.assert_array_equal(first, expected.get(request, wanted[0]))
        np.testing.assert_array_equal(second, wanted[1])


def test_scalars_are_taken_at_each_run(bench: GpuBench) -> None:
    x = np.arange(6, dtype=np.float32)
    made = plan(AXPY, [x, x], [x, x], bench)
    for scalar in (2.0, -1.0):
        np.testing.assert_array_equal(bench.run(made, [x, x], [x, x], None, [scalar])[0], x * scalar + x)


def test_wrong_tensors_are_refused(bench: GpuBench) -> None:
    x, y = np.ones(4, np.float32), np.ones(5, np.float32)
    made = plan(AXPY, [x, x], [x, x], bench)
    with pytest.raises(RuntimeError, match=r"\[axpy\] \[gpu\(\d\)\] input 1: the plan was made for "):
        bench.run(made, [x, y], [x, x], None, [1.0])
    with pytest.raises(RuntimeError, match="got 2, 0 and 2"):
        bench.run(made, [x, x], [x, x])


def test_all_memory_is_given_back(bench: GpuBench) -> None:
    x = np.ones(1000, np.float32)
    before = bench.memory.stats().bytes_in_use
    bench.run(plan(AXPY, [x, x], [x, x], bench), [x, x], [x, x], None, [1.0])
    assert bench.memory.stats().bytes_in_use == before


def test_a_gpu_that_there_is_not() -> None:
    op: Any = SimpleNamespace(name="f")
    spec = (TensorSpec((2,), 0),)
    with pytest.raises(MXNetError, match=r"gpu\(99\) cannot be used: this machine has gpu\(0\) to"):
        generate(X.trace(lambda x: x, 1), KernelCall(op, None, spec, spec, gpu(99)))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["add float16", "bias float16", "momentum float32", "mean of all float32"])
def test_samples_of_the_ledger(name: str) -> None:
    """They load and become plans; `test_gpu.py` runs them."""
    sample = ledger.samples()[name]
    bench = GpuBench()
    plan = make_plan("sample", bench.context, sample.inputs, sample.outputs, sample.launches,
                     n_scalars=len(sample.scalars), scratch=sample.scratch)  # fmt: skip
    assert "mx.plan.v1" in repr(plan)
