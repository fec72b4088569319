# SPDX-License-Identifier: Apache-2.0
"""Some sixty wrong plug-ins, each in a process of its own: the rest works, and what is wrong is said.

The default run takes every twelfth, the nightly one all.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import mx_core
from testkit import fresh
from testkit.bad_plugins import BAD, FAILING, NATIVE, install

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

PROGRAM = """
import io, numpy as np, mx
from mx_io import codecs
x = mx.nd.array([0.5, -1])
assert np.allclose(mx.nd.tanh(x).asnumpy(), np.tanh([0.5, -1]))
assert mx.nd.relu(x).asnumpy().tolist() == [0.5, 0]
data = mx.sym.Variable("data")
net = mx.sym.FullyConnected(mx.sym.tanh(data), num_hidden=3, name="fc")
executor = net.simple_bind(data=(2, 4))
executor.forward(is_train=True, data=np.ones((2, 4)))
executor.backward(mx.nd.ones((2, 3)))
assert executor.grad_dict["fc_weight"].asnumpy().shape == (3, 4)
assert codecs.decode(codecs.encode(np.zeros((2, 2, 3), np.uint8), ".png")).shape == (2, 2, 3)
assert mx.kv.create("local").type == "local"
print("all is well")
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("native")
    (folder / "native.cc").write_text(NATIVE)
    command = ["g++", "-std=c++17", "-shared", "-fPIC", "-O0", "-I", mx_core.get_include()]
    subprocess.run([*command, "native.cc", "-o", "native.so"], cwd=folder, check=True, timeout=120)
    return folder / "native.so"


def run(folder: Path, program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return fresh.run(program, *arguments, timeout=200, **where(folder), **variables)


def where(folder: Path) -> dict[str, str]:
    return {"MX_STRICT_PLUGINS": "", "PYTHONPATH": str(folder)}


def prepare(folder: Path, source: str, request: pytest.FixtureRequest, *more: str) -> None:
    install(folder, source, *more)
    if "native.so" in source:
        (folder / "native.so").symlink_to(request.getfixturevalue("library"))


@pytest.mark.parametrize("name", fresh.sampled(BAD, 12))
def test_the_rest_works_and_it_is_said(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    bad = BAD[name]
    prepare(tmp_path, bad.source, request, bad.requires, bad.group)
    done = run(tmp_path, PROGRAM, MX_ENGINE_TYPE="")
    assert done.returncode == 0 and "all is well" in done.stdout, done.stderr
    assert bad.said in done.stderr
    if bad.said:
        assert "'aaa'" in done.stderr and "acme-bad 1.0" in done.stderr
    listed = fresh.mx("plugins", MX_ENGINE_TYPE="", **where(tmp_path))
    assert listed.returncode in (0, 1) and "aaa" in listed.stdout, listed.stderr
    if bad.checked is not None:
        checked = fresh.mx("plugins", "check", "aaa", "--limit", "10", MX_ENGINE_TYPE="", **where(tmp_path))
        assert checked.returncode == 1 and bad.checked in checked.stdout, checked.stdout + checked.stderr


ENDLESS = """
import _thread, sys, threading, warnings
import mx
from mx_core.errors import PluginWarning
from mx_core.operator import watchdog
warnings.simplefilter(sys.argv[1], PluginWarning)
watchdog.SECONDS = 0.2
x = mx.nd.tanh(mx.nd.ones((3,)))
threading.Timer(4, _thread.interrupt_main).start()
try:
    mx.nd.acme_endless(x)
except KeyboardInterrupt:
    print("ended by Ctrl-C", mx.nd.tanh(mx.nd.zeros((1,))).asnumpy())
"""


@pytest.mark.parametrize("action", ["default", "error"])
def test_an_inference_that_does_not_return_is_told_and_can_be_ended(action: str, tmp_path: Path) -> None:
    install(tmp_path, BAD["endless_inference"].source)
    done = run(tmp_path, ENDLESS, action, MX_ENGINE_TYPE="")
    assert done.returncode == 0 and "ended by Ctrl-C [0.]" in done.stdout, done.stderr
    told = "operator 'acme_endless' of plug-in 'aaa' (acme-bad 1.0): infer_shape has not returned for"
    assert done.stderr.count(told) == 1 and "now at" in done.stderr and "acme_bad.py:" in done.stderr


@pytest.mark.parametrize("name", fresh.sampled(FAILING, 12))
def test_a_kernel_that_fails_in_its_run_is_named(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source, message = FAILING[name]
    prepare(tmp_path, source, request)
    for engine in ("", "NaiveEngine"):
        program = "import mx; mx.nd.tanh(mx.nd.ones((3,))).wait_to_read()"
        done = run(tmp_path, program, MX_ENGINE_TYPE=engine)
        assert done.returncode == 1 and message in done.stderr, (done.returncode, done.stderr)
