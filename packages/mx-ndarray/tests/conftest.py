# SPDX-License-Identifier: Apache-2.0
"""Operators and an accelerator that only these tests need, and a clean engine after each test."""

from __future__ import annotations

import gc
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mx_ndarray
from mx_core import operators
from mx_core.context import Context
from mx_core.operator import Operator, Params, opt
from mx_core.testing.sample_operators import Counter, Fails, Positive
from mx_ndarray import _core, random_state
from testkit import device_plugin

DATA = Path(__file__).parent / "data"
gate = threading.Event()


class _ScaleParam(Params):
    """A run-time factor."""

    factor: float = opt(1.0, "the factor", runtime=True)


class Gated(Operator):
    """Copies its input once the gate is open."""

    name = "test_gated"
    differentiable = False

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        assert gate.wait(20)
        return (np.array(inputs[0]),)


class Scaled(Operator):
    """data · factor, where the factor is a run-time scalar."""

    name = "test_scaled"
    differentiable = False
    Param = _ScaleParam  # type: ignore[assignment]

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        return (inputs[0] * np.float32(ctx.scalars[0]),)


class Reversed(Operator):
    """The elements in reverse order: cannot be computed in place."""

    name = "test_reversed"
    differentiable = False

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        return (inputs[0][::-1],)


class Mode(Operator):
    """1 in training, else 0."""

    name = "test_mode"
    differentiable = False
    needs_train_flag = True

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        return (np.full_like(inputs[0], float(ctx.is_train)),)


class Square2(Operator):
    """(data², hidden 2·data); backward reads the hidden output only."""

    name = "test_square2"
    results = ("output", "slope")

    def num_visible_outputs(self, p: Any) -> int:
        return 1

    def gradient(self, p: Any, g: Any) -> Any:
        return g.op("elemwise_mul", (g.out_grad(), g.output("slope")))

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        return inputs[0] ** 2, 2 * inputs[0]


OPERATORS = (Fails, Gated, Positive, Counter, Scaled, Reversed, Mode, Square2)


def pytest_configure() -> None:
    """Lets Ctrl-C through to the tests' processes when a shell runs the tests in the background, without it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def test_operators() -> Iterator[None]:
    gate.clear()
    with operators.temporary(*OPERATORS):
        yield
        gate.set()
        try:
            mx_ndarray.waitall()
        except ZeroDivisionError:
            pass
    _core.set_recording(False)
    _core.set_training(False)


@pytest.fixture
def open_gate() -> Iterator[threading.Event]:
    yield gate
    gate.set()


@pytest.fixture
def data() -> Path:
    return DATA


@pytest.fixture(scope="session")
def accelerator(tmp_path_factory: pytest.TempPathFactory) -> device_plugin.Library:
    """The compiled accelerator."""
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler, which builds the accelerator")
    return device_plugin.Library(tmp_path_factory.mktemp("accelerator"))


@pytest.fixture
def device(accelerator: device_plugin.Library) -> Iterator[Context]:
    """The first device of an accelerator that is installed for the length of a test."""
    with device_plugin.installed(accelerator):
        yield Context(device_plugin.NAME)
    for context in random_state._known | random_state._seeds.keys():
        if context.device_type == device_plugin.NAME:  # states of other tests have no stream of the device
            random_state._known.discard(context)
            random_state._seeds.pop(context, None)
        mx_ndarray.waitall()
        gc.collect()
