# SPDX-License-Identifier: Apache-2.0
"""The CUDA kernels of the example plug-in: compiled for a real GPU, run on a fake one."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mx_operators_cuda", reason="mx-operators-cuda is not installed")
pytest.importorskip("mx_example_operators", reason="mx-example-operators is not installed")

from testkit import cuda_emulator, fake_machine

PROGRAM = """
import numpy as np
import mx
from mx_core import kernels, operators

rng = np.random.default_rng(0)
assert kernels.candidates(operators.get("moving_average"), "gpu")[0].variant == "example_cuda"
for dtype, tolerance in (("float32", 1e-6), ("float64", 1e-12), ("float16", 2e-3)):
    for shape, window in (((3, 5, 41), 4), ((7,), 7), ((2, 1), 1), ((0, 9), 2)):
        x, head = rng.normal(size=shape), rng.normal(size=(*shape[:-1], shape[-1] - window + 1))
        found = {}
        for place in (mx.cpu(), mx.gpu(0)):
            a = mx.nd.array(x, ctx=place, dtype=dtype)
            a.attach_grad("add")
            for _ in range(2):
                with mx.autograd.record():
                    y = mx.nd.moving_average(a, window=window)
                y.backward(mx.nd.array(head, ctx=place, dtype=dtype))
            found[place.device_type] = (y.asnumpy(), a.grad.asnumpy())
        for cpu, gpu in zip(found["cpu"], found["gpu"]):
            np.testing.assert_allclose(gpu, cpu, rtol=tolerance, atol=tolerance * 4)
print("equal")
"""


@pytest.mark.long
@pytest.mark.timeout(280)
@pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="there is no g++, which builds the kernels")
def test_numbers_are_those_of_the_cpu(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> None:
    machine = fake_machine.Machine(tmp_path_factory, pytestconfig)
    assert machine.run(PROGRAM, timeout=240, FAKE_CUDA_DELAY="100").strip() == "equal"


@pytest.mark.parametrize("code", [0, 1, 2, 12])
def test_compiles_for_a_real_gpu(code: int) -> None:
    from mx_core.errors import MXNetError
    from mx_example_operators import cuda
    from mx_operators_cuda import compile_kernel, nvrtc

    try:
        nvrtc.library()
    except MXNetError as error:
        pytest.skip(str(error))
    kind, total = cuda.TYPES[code]
    for text, name in ((cuda.FORWARD, "moving_average"), (cuda.BACKWARD, "backward_moving_average")):
        made: Any = compile_kernel(text.format(type=kind, sum=total), name, "sm_90")
        assert made.code[:4] == b"\x7fELF"
