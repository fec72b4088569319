# SPDX-License-Identifier: Apache-2.0
"""What arrays say when a GPU fails; on the fake driver, which fails when told to."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mx_core import gpu
from mx_core.errors import MXNetError, OutOfMemoryError
from mx_ndarray import nd


@pytest.fixture
def fake() -> Iterator[Any]:
    library = ctypes.CDLL(os.environ["MX_CUDA_DRIVER"])
    yield library
    library.fake_heal()


def test_a_launch_that_is_refused(fake: Any) -> None:
    x = nd.ones((4,), ctx=gpu(0))
    x.wait_to_read()
    fake.fake_fail(b"cuLaunchKernel", 701, 0)
    y = x + 1
    with pytest.raises(
        MXNetError, match=r"gpu\(0\)\] cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
    ) as caught:
        y.asnumpy()
    assert "_plus_scalar" in str(caught.value)
    np.testing.assert_array_equal((x + 2).asnumpy(), [3, 3, 3, 3])


def test_a_kernel_that_dies(fake: Any) -> None:
    x = nd.ones((4,), ctx=gpu(0))
    x.wait_to_read()
    fake.fake_delay(20000)
    fake.fake_fail(b"kernel", 719, 0)
    y = nd.exp(x)
    with pytest.raises(MXNetError, match="CUDA_ERROR_LAUNCH_FAILED.*start it again"):
        y.wait_to_read()
    fake.fake_delay(0)


def test_memory_runs_out_and_comes_back(fake: Any) -> None:
    """The GPU has 16 MiB."""
    held = [nd.ones((1 << 20,), ctx=gpu(1)) for _ in range(3)]
    with pytest.raises(OutOfMemoryError, match=r"gpu\(1\): cannot allocate 8388608 bytes.* in use, 0 pooled"):
        nd.ones((1 << 21,), ctx=gpu(1)).wait_to_read()
    del held
    nd.waitall()
    assert nd.ones((1 << 21,), ctx=gpu(1)).sum().asscalar() == float(1 << 21)
