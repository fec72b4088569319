# SPDX-License-Identifier: Apache-2.0
"""`import mx` where only some packages are installed; parts replaced by a stranger's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.install


def failure(fresh: Any, source: str) -> str:
    """The traceback of code that must fail, with its notes."""
    done = fresh.run("-c", source)
    assert done.returncode == 1, done
    return str(done.stderr[done.stderr.index("Traceback") :])


@pytest.mark.long
@pytest.mark.parametrize(
    ("hidden", "source", "names"),
    [
        (("mx_symbol", "mx_train", "mx_gluon"), "mx.sym", "install mx-symbol"),
        (("mx_train", "mx_gluon"), "mx.mod", "install mx-train"),
        (("mx_gluon",), "mx.gluon", "install mx-gluon"),
        (("mx_io", "mx_train", "mx_gluon"), "mx.io", "install mx-io"),
        (("mx_engine",), "mx.nd.array([1])", "install mx-engine"),
        (("mx_storage",), "mx.nd.array([1])", "install mx-storage"),
        (("mx_operators_cuda",), "mx.nd.array([1], ctx=mx.gpu()).asnumpy()", "install mx-operators-cuda"),
        (("mx_operators_cuda",), "mx.nd.ones((2,), ctx=mx.gpu())", "install mx-operators-cuda"),
    ],
)
def test_what_is_missing_is_named(
    environment: Callable[..., Any], hidden: tuple[str, ...], source: str, names: str
) -> None:
    fresh = environment(*hidden)
    assert names in failure(fresh, f"import mx; {source}")


def test_arrays_without_operators(environment: Callable[..., Any]) -> None:
    fresh = environment("mx_operators", "mx_operators_cpu", "mx_operators_cuda")
    assert fresh.code("import mx; print(mx.nd.array([1, 2]).asnumpy().tolist())") == "[1.0, 2.0]\n"
    message = failure(fresh, "import mx; mx.nd.relu(mx.nd.array([1]))")
    assert "mx_core.errors.UnknownOperatorError: " in message and "'relu'" in message


def test_operators_without_fast_kernels(environment: Callable[..., Any]) -> None:
    fresh = environment("mx_operators_cpu", "mx_operators_cuda")
    out = fresh.code(
        """
        import mx
        x = mx.nd.array([[1, 2], [3, 4]])
        x.attach_grad()
        with mx.autograd.record():
            y = mx.nd.FullyConnected(x, mx.nd.ones((1, 2)), no_bias=True, num_hidden=1)
        y.backward()
        print(y.asnumpy().tolist(), x.grad.asnumpy().tolist())
        """
    )
    assert out == "[[3.0], [7.0]] [[1.0, 1.0], [1.0, 1.0]]\n"


STRANGER = """
from mx_core import plugins

class Stranger:
    '''Another engine under its own name; remembers that it was asked for.'''

    def __init__(self):
        self._inner = plugins.registry("engines").get("NaiveEngine").value.make()
        self.name = "StrangersEngine"
        self.asked = 0

    @property
    def capsule(self):
        self.asked += 1
        return self._inner.capsule

    def __getattr__(self, name):
        return getattr(self._inner, name)

def mx_register_engines(registry):
    registry.add("StrangersEngine", Stranger, priority={priority}, aliases=("Stranger",))
"""

COMPUTE = """
import mx
from mx_core import services

net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3)
executor = net.simple_bind(mx.cpu(), data=(2, 4))
executor.forward(is_train=True, data=mx.nd.ones((2, 4)))
executor.backward(mx.nd.ones((2, 3)))
mx.nd.waitall()
engine = services.engine()
print(engine.name, getattr(engine, "asked", 0) > 0)
"""


@pytest.mark.long
@pytest.mark.parametrize("chosen", ["StrangersEngine", "Stranger"])
def test_a_strangers_engine_runs_everything(
    environment: Callable[..., Any], wheel: Callable[[str, str], Any], chosen: str
) -> None:
    fresh = environment()
    fresh.install(wheel("stranger", STRANGER.format(priority=-1)))
    assert fresh.code(COMPUTE) == "ThreadedEnginePerDevice False\n"
    assert fresh.code(COMPUTE, MX_ENGINE_TYPE=chosen) == "StrangersEngine True\n"
    assert fresh.code(COMPUTE, MXNET_ENGINE_TYPE=chosen) == "StrangersEngine True\n"


@pytest.mark.long
def test_the_engine_of_highest_priority_is_the_default(
    environment: Callable[..., Any], wheel: Callable[[str, str], Any]
) -> None:
    fresh = environment()
    fresh.install(wheel("stranger", STRANGER.format(priority=1000)))
    assert fresh.code(COMPUTE) == "StrangersEngine True\n"


#: everything but mx-core and mx-engine, and what these do without
BUT_THE_ENGINE = (
    "mx", "mx_storage", "mx_operators", "mx_operators_cpu", "mx_operators_cuda", "mx_ndarray", "mx_symbol", "mx_kvstore",
    "mx_io", "mx_train", "mx_gluon", "mx_example_operators", "mx_kvstore_mpi", "numpy", "ml_dtypes",
)  # fmt: skip


@pytest.mark.long
def test_the_command_with_the_engine_alone(environment: Callable[..., Any]) -> None:
    fresh = environment(*BUT_THE_ENGINE)
    doctor = fresh.run("-m", "mx_core.cli", "doctor")
    assert doctor.returncode == 0 and not doctor.stderr, doctor.stdout + doctor.stderr
    lines = [line.split(maxsplit=1) for line in doctor.stdout.splitlines()]
    assert ["engine", "ThreadedEnginePerDevice"] in [
        [name, rest[0].split()[0]] for name, *rest in lines if rest
    ]
    assert "not installed; mx-storage brings it" in doctor.stdout and "problems" not in doctor.stdout
    listed = fresh.run("-m", "mx_core.cli", "ops")
    assert listed.returncode == 0 and not listed.stderr
    assert listed.stdout.startswith("no operators are registered; mx-operators and mx-operators-cpu")
    helped = fresh.run("-m", "mx_core.cli", "ops", "--help")
    assert (
        helped.returncode == 0 and "List operators and their kernels" in helped.stdout and not helped.stderr
    )
    shown = fresh.run("-m", "mx_core.cli", "ops", "relu")
    assert (
        shown.returncode == 1 and "Install mx-operators" in shown.stderr and "Traceback" not in shown.stderr
    )
    checked = fresh.run("-m", "mx_core.cli", "plugins", "check", "engine")
    assert checked.returncode == 1 and checked.stderr.startswith("Error: the checks need NumPy")
    plugins = fresh.run("-m", "mx_core.cli", "plugins")
    assert plugins.returncode == 0 and plugins.stdout.startswith("engine  loaded  mx-engine")
