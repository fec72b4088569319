# SPDX-License-Identifier: Apache-2.0
"""What a generated kernel's launch is made of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mx_operators_cuda
from mx_core import expression as X
from mx_core.errors import ShapeError
from mx_core.kernels import TensorSpec
from mx_operators_cuda import Launch, kernel
from mx_operators_cuda.launch import Kind

AXPY = X.trace(lambda x, y, s: x * s + y, 2, 1)
CSRC = Path(mx_operators_cuda.__file__).parents[2] / "csrc" / "parameter.hpp"


def launch(*shapes: tuple[int, ...], out: tuple[int, ...]) -> Launch:
    made = kernel("axpy", AXPY, [TensorSpec(s, 0) for s in shapes], [TensorSpec(out, 0)])
    assert made is not None
    return made


def test_parameters_in_the_kernels_order() -> None:
    made = launch((3, 1), (1, 4), out=(3, 4))
    assert made.parameters == (
        (Kind.INPUT, 0), (Kind.INPUT, 1), (Kind.OUTPUT, 0), (Kind.REQUEST, 0), (Kind.SCALAR, 0),
        (Kind.UINT32, 12), (Kind.UINT32, 4),
    )  # fmt: skip
    assert "mx_axpy(const float* x0, const float* x1, float* y0, int request0, mx::Scalar scalar0, Index n, Index size1)" \
        in made.source.text  # fmt: skip


def test_equal_patterns_share_a_source() -> None:
    assert launch((3, 1), (1, 4), out=(3, 4)).source == launch((7, 1), (1, 9), out=(7, 9)).source
    assert launch((3,), (3,), out=(3,)).source != launch((3,), (1,), out=(3,)).source


def test_the_grid_fills_the_device_and_no_more() -> None:
    assert launch((5,), (5,), out=(5,)).blocks(132) == 1
    assert launch((1 << 24,), (1 << 24,), out=(1 << 24,)).blocks(132) == 16 * 132
    assert launch((0,), (0,), out=(0,)).threads == 0


def test_signatures_that_are_declined() -> None:
    e = X.trace(lambda x: (x, x), 1)
    complex64, small, large = TensorSpec((2,), 13), TensorSpec((2,), 0), TensorSpec((3,), 0)
    assert kernel("f", X.trace(lambda x: x, 1), [complex64], [complex64]) is None
    assert kernel("f", e, [small], [small, large]) is None
    with pytest.raises(ShapeError):
        kernel("f", e, [large], [small, small])


@pytest.mark.skipif(not CSRC.exists(), reason="the C++ sources are not installed")
def test_the_kinds_are_those_of_the_native_part() -> None:
    body = re.search(r"enum Kind : uint8_t \{(.*?)\};", CSRC.read_text(), re.S)
    assert body is not None
    names = re.findall(r"^\s*k(\w+),", body[1], re.M)
    assert [name.lower() for name in names] == [kind.name.replace("_", "").lower() for kind in Kind]
