# SPDX-License-Identifier: Apache-2.0
"""What is registered exists and is chosen; large plans survive a fork."""

from __future__ import annotations

import os

import numpy as np
import pytest
from plans import evaluated

from mx_core import expression as X
from mx_core import kernels, operators
from mx_core.context import cpu
from mx_core.kernels import TensorSpec
from mx_core.plugins.specs import resolve
from mx_operators_cpu.library import native
from mx_operators_cpu.register import VECTOR_KERNELS, qualified


@pytest.mark.parametrize(("name", "make"), VECTOR_KERNELS)
def test_operator_and_kernel_exist(name: str, make: str) -> None:
    if not name.startswith(
        "_fused"
    ):  # these are declared beside the graph passes that make them, in mx-symbol
        assert operators.get(name).name == name
    assert callable(resolve(qualified(make)))


def test_each_operator_is_registered_once() -> None:
    assert len({name for name, _ in VECTOR_KERNELS}) == len(VECTOR_KERNELS)


@pytest.mark.parametrize(
    ("name", "n", "result"), [("elemwise_add", 2, (3, 4)), ("relu", 1, (3, 4)), ("sum", 1, (1,))]
)
def test_the_framework_chooses_these_kernels(name: str, n: int, result: tuple[int, ...]) -> None:
    op = operators.get(name)
    made = kernels.prepare(
        op, op.Param.parse({}, op=name), [TensorSpec((3, 4), 0)] * n, [TensorSpec(result, 0)], cpu(0)
    )
    assert (made.variant, made.plugin) == ("vector", "operators_cpu")


def test_instruction_set_is_known() -> None:
    assert native.instruction_set() in ("baseline", "avx2", "avx512")


@pytest.mark.timeout(30)
def test_threads_work_after_a_fork() -> None:
    x = np.ones(1 << 20, np.float32)
    expression = X.trace(lambda a: X.exp(a) + a, 1)
    (want,) = evaluated(expression, [x], [x.dtype], threads=2)
    child = os.fork()
    if child == 0:
        (got,) = evaluated(expression, [x], [x.dtype], threads=2)
        os._exit(0 if (got == want).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
