# SPDX-License-Identifier: Apache-2.0
"""What operators plan: the launches of rows run on the emulator, those of optimizers are looked at."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, operators
from mx_core.context import gpu
from mx_core.kernels import KernelCall, TensorSpec
from mx_operators_cuda import Launch, indexing, launch, optimizer, rows
from mx_operators_cuda.codegen.source import KernelSource


def call(name: str, parameters: dict[str, str], inputs: list[Any], outputs: list[TensorSpec]) -> KernelCall:
    op = operators.get(name)
    specs = [x if isinstance(x, TensorSpec) else TensorSpec(x.shape, dtypes.code(x.dtype)) for x in inputs]
    return KernelCall(op, op.Param.parse(parameters), tuple(specs), tuple(outputs), gpu(0))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """The launches that are planned."""
    found: list[Launch] = []

    def take(name: str, context: Any, inputs: Any, outputs: Any, steps: list[Launch], **_: Any) -> str:
        found.extend(steps)
        return name

    modules: tuple[ModuleType, ...] = (indexing, rows, optimizer)
    for module in modules:
        monkeypatch.setattr(module, "make_plan", take)
    return found


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_one_element_of_every_row_is_picked(
    axis: int, mode: str, planned: list[Launch], emulator: Any
) -> None:
    rng = np.random.default_rng(axis)
    x = rng.normal(size=(5, 7)).astype(np.float32)
    rows_ = x.shape[1 - axis]
    index = rng.integers(-20, 20, size=rows_).astype(np.float32)
    place = (index % x.shape[axis] if mode == "wrap" else index.clip(0, x.shape[axis] - 1)).astype(int)
    parameters = {"axis": str(axis), "mode": mode}

    out = TensorSpec((rows_,), 0)
    assert indexing.pick(call("pick", parameters, [x, index], [out])) is not None
    (picked,) = emulator.run(planned.pop(), [x, index], [out], threads=4)
    expected = np.take_along_axis(x, np.expand_dims(place, axis), axis).squeeze(axis)
    np.testing.assert_array_equal(picked, expected)

    gradient = rng.normal(size=rows_).astype(np.float32)
    inputs = [gradient, x, index]
    specs = [TensorSpec(x.shape, 0)]
    assert rows.backward_pick(call("_backward_pick", parameters, inputs, specs)) is not None
    (found,) = emulator.run(planned.pop(), inputs, specs, threads=4)
    wanted = np.zeros_like(x)
    np.put_along_axis(wanted, np.expand_dims(place, axis), np.expand_dims(gradient, axis), axis)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("weight", "gradient", "state"),
    [((4,), (4,), (5,)), ((4,), (1,), (4,)), ((2, 2), (4,), (2, 2)), ((5,), (4,), (4,))],
)
def test_optimizers_decline_tensors_of_several_shapes(
    weight: Any, gradient: Any, state: Any, planned: list[Launch]
) -> None:
    specs = [TensorSpec(shape, 0) for shape in (weight, gradient, state)]
    assert optimizer.update(call("sgd_mom_update", {"lr": "0.1"}, specs, specs[:1])) is None
    assert not planned


def test_optimizers_decline_tensors_of_several_types(planned: list[Launch]) -> None:
    whole, half = TensorSpec((4,), 0), TensorSpec((4,), 2)
    for specs in ([whole, half, whole], [whole, whole, half], [half, whole, half]):
        assert optimizer.update(call("sgd_mom_update", {"lr": "0.1"}, specs, specs[:1])) is None
    assert optimizer.update(call("sgd_mom_update", {"lr": "0.1"}, [half] * 3, [half])) is not None
    assert len(planned) == 1


def test_a_kernel_is_loaded_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from mx_operators_cuda import _native, nvrtc

    monkeypatch.setattr(nvrtc, "compile_kernel", lambda *_: SimpleNamespace(code=b""))
    monkeypatch.setattr(_native, "Kernel", lambda name, code: object())
    source = KernelSource("kept", "no such kernel", 1)
    first = launch._kernel(source, "sm_90")
    assert launch._kernel(source, "sm_90") is first
    assert launch._kernel(source, "sm_100") is not first
