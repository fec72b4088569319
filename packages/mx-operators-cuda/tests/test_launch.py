# SPDX-License-Identifier: Apache-2.0
"""The way to CuPy, with a stand-in for CuPy: checks which calls are made with which arguments.

The stand-in's arrays are NumPy's and its launch runs the emulated kernel, so the arguments are also
used; it says nothing about a real GPU (`test_gpu.py` does, where there is one).
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mx_core import expression as X
from mx_core.context import gpu
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_core.kernels import KernelCall, TensorSpec
from mx_operators_cuda import device, driver, generate, launch
from mx_operators_cuda.elementwise import ADD, NULL, ElementwisePlan
from mx_operators_cuda.nvrtc import Compiled

F32 = 0


class Array(np.ndarray):
    """A NumPy array that looks like CuPy's."""

    on = 0

    @property
    def device(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(id=self.on)

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data)


def array(values: Any) -> Array:
    return np.asarray(values, np.float32).view(Array)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch, emulator: Any) -> Any:
    """The stand-in; `calls` has (device, grid, block, arguments, stream) of every launch."""
    fake = ModuleType("cupy")
    calls: list[Any] = []
    entered: list[int] = []
    texts: dict[bytes, Any] = {}

    class Device:
        compute_capability = "90"
        attributes = {"MultiProcessorCount": 132}

        def __init__(self, number: int) -> None:
            self.number = number

        def __enter__(self) -> None:
            entered.append(self.number)

        def __exit__(self, *_: Any) -> None:
            entered.pop()

    class Module:
        def load(self, code: bytes) -> None:
            self.source = texts[code]

        def get_function(self, name: str) -> Any:
            assert name == self.source.name

            def function(grid: Any, block: Any, arguments: Any, stream: Any = None) -> None:
                calls.append((entered[-1], grid, block, arguments, stream))
                emulator.launch(self.source, grid[0], 1, arguments)

            return function

    def compile_kernel(text: str, name: str, architecture: str) -> Compiled:
        assert architecture == "sm_90"
        code = f"{len(texts)}".encode()
        texts[code] = SimpleNamespace(text=text, name=name)
        return Compiled(name, code, "")

    fake.cuda = SimpleNamespace(Device=Device, function=SimpleNamespace(Module=Module))  # type: ignore[attr-defined]
    fake.empty = lambda shape, dtype: np.full(shape, 7, dtype).view(Array)  # type: ignore[attr-defined]
    fake.ndarray = Array  # type: ignore[attr-defined]
    fake.calls = calls  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(device, "require", lambda context: None)
    monkeypatch.setattr(launch.nvrtc, "compile_kernel", compile_kernel)
    launch._load.cache_clear()
    yield fake
    launch._load.cache_clear()


def plan(shapes: Any = ((5,), (5,)), scalars: int = 1) -> ElementwisePlan:
    e = X.trace(lambda x, y, s: x * s + y, len(shapes), scalars)
    shape = np.broadcast_shapes(*shapes)
    specs = tuple(TensorSpec(s, F32) for s in shapes)
    call = KernelCall(SimpleNamespace(name="axpy"), None, specs, (TensorSpec(shape, F32),), gpu(0))  # type: ignore[arg-type]
    made = generate(e, call)
    assert made is not None
    return made


def test_as_a_kernel_function(cupy: Any) -> None:
    x, y = array([1, 2, 3, 4, 5]), array([10, 20, 30, 40, 50])
    (out,) = plan()(SimpleNamespace(scalars=(2.0,)), [x, y])  # type: ignore[arg-type]
    np.testing.assert_array_equal(out, [12, 24, 36, 48, 60])
    ((where, grid, block, arguments, stream),) = cupy.calls
    assert (where, grid, block, stream) == (0, (1, 1, 1), (256, 1, 1), None)
    kinds = [type(a).__name__ for a in arguments]
    assert kinds == ["uint64", "uint64", "uint64", "int32", "float64", "uint32"]


def test_requests_stream_and_one_compilation(cupy: Any) -> None:
    p, x, y = plan(((3, 1), (1, 4))), array([[1], [2], [3]]), array([[1, 2, 3, 4]])
    out = array(np.ones((3, 4)))
    p.run([x, y], [out], [ADD], [2.0], stream="a stream")
    np.testing.assert_array_equal(out, x * 2 + y + 1)
    p.run([x, y], [out], [NULL], [2.0])
    plan(((3, 1), (1, 4))).run([x, y], [out], scalars=[0.0])
    np.testing.assert_array_equal(out, np.broadcast_to(y, (3, 4)))
    assert [c[-1] for c in cupy.calls] == ["a stream", None], "nothing is launched for request null"
    assert launch._load.cache_info().misses == 1


def test_nothing_is_launched_for_no_elements(cupy: Any) -> None:
    plan(((0, 3), (3,))).run(
        [array(np.ones((0, 3))), array(np.ones(3))], [array(np.ones((0, 3)))], scalars=[1.0]
    )
    assert not cupy.calls


def test_grid_fills_the_device_and_no_more() -> None:
    small, large = plan(((5,), (5,))), plan(((1 << 24,), (1 << 24,)))
    assert small.blocks(132) == 1
    assert large.blocks(132) == 16 * 132


def test_bad_arguments_name_the_array(cupy: Any) -> None:
    p, good, out = plan(), array(np.ones(5)), array(np.ones(5))
    elsewhere = array(np.ones(5))
    elsewhere.on = 1
    for inputs, outputs, requests, scalars, kind, message in (
        ([good], [out], None, [1.0], ArgumentError, "expected 2 inputs, got 1"),
        ([good, good], [out], None, [], ArgumentError, "expected 1 scalars, got 0"),
        ([good, good], [out], [9], [1.0], ArgumentError, "request: expected 0 to 3, got 9"),
        ([good, np.ones(5)], [out], None, [1.0], MXNetError, "input 1: expected a CuPy array, got ndarray"),
        ([good, array(np.ones(4))], [out], None, [1.0], ShapeError, r"input 1: expected shape \(5,\), got \(4,\)"),
        ([good, good], [good.astype(np.int32)], None, [1.0], DTypeError, "output 0: expected float32, got int32"),
        ([array(np.ones(10))[::2], good], [out], None, [1.0], ArgumentError, "input 0: expected a C-contiguous"),
        ([elsewhere, good], [out], None, [1.0], ArgumentError, r"input 0: expected an array on gpu\(0\), got one on gpu\(1\)"),
    ):  # fmt: skip
        with pytest.raises(kind, match=message):
            p.run(inputs, outputs, requests, scalars)
    assert not cupy.calls


@pytest.mark.skipif(driver.count() > 0, reason="this machine has a GPU")
def test_without_a_gpu_the_plan_says_so() -> None:
    with pytest.raises(MXNetError, match=r"gpu\(0\) cannot be used: .*driver"):
        plan().run([np.ones(5)] * 2, [np.ones(5)], scalars=[1.0])


def test_signatures_that_are_declined() -> None:
    op, e = SimpleNamespace(name="f"), X.trace(lambda x: x, 1)
    for given, made in (
        (TensorSpec((2,), 13), TensorSpec((2,), 13)),  # complex64
        (TensorSpec((2,), 0, layout=5), TensorSpec((2,), 0)),
    ):
        assert generate(e, KernelCall(op, None, (given,), (made,), gpu())) is None  # type: ignore[arg-type]
    with pytest.raises(ShapeError):
        generate(e, KernelCall(op, None, (TensorSpec((3,), 0),), (TensorSpec((2,), 0),), gpu()))  # type: ignore[arg-type]
