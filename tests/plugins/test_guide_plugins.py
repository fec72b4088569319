# SPDX-License-Identifier: Apache-2.0
"""What the guides for authors show is a plug-in that passes its checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testkit import fresh
from testkit.bad_plugins import install

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def shown(folder: Path, guide: str) -> Path:
    """Installs the Python of a guide, up to where it tests what it has registered."""
    text = (GUIDES / guide).read_text().partition("## Test them")[0]
    install(folder, "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)))
    return folder


PARTS = {
    "write_a_store_iterator_or_codec.md": (
        "engines 'CountingEngine'", "kvstores 'summing'", "data iters 'Squares'", "image codecs 'plain'",
    ),
    "write_an_optimizer_or_metric.md": (
        "optimizers 'lion': it updates a weight",
        "metrics 'within': it takes labels and predictions, and gives finite numbers",
        "initializers 'alternating': it writes every element",
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("guide", PARTS)
def test_they_pass(guide: str, tmp_path: Path) -> None:
    folder = shown(tmp_path, guide)
    done = fresh.mx("plugins", "check", "aaa", timeout=300, PYTHONPATH=str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    for subject in PARTS[guide]:
        assert any(line.startswith(f"ok      {subject}") for line in lines), lines
    unchecked = [line for line in lines if line.startswith("not checked") and "initializers" not in line]
    assert not unchecked, lines


def test_the_engine_runs_arrays_when_it_is_chosen(tmp_path: Path) -> None:
    folder = shown(tmp_path, "write_a_store_iterator_or_codec.md")
    program = "import mx; print((mx.nd.ones(2) + 1).asnumpy().tolist())\nfrom mx_core import services\nprint(services.engine().name)"
    done = fresh.run(program, PYTHONPATH=str(folder), MX_ENGINE_TYPE="CountingEngine")
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert printed[-2:] == ["[2.0, 2.0]", "CountingEngine"]


TRAINING = """
import mx, numpy as np
x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
net = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1), name="lin")
module = mx.mod.Module(net, label_names=["lin_label"])
train = mx.io.NDArrayIter(x, x[:, :1], batch_size=20, label_name="lin_label")
module.fit(train, num_epoch=1, optimizer="Lion", optimizer_params={"learning_rate": 0.01}, eval_metric="tolerance",
           initializer=mx.init.create("alternating", scale=0.2))
print(type(module._optimizer).__name__, mx.metric.create("within", tolerance=0.5).tolerance)
"""


def test_training_finds_them_by_name(tmp_path: Path) -> None:
    folder = shown(tmp_path, "write_an_optimizer_or_metric.md")
    done = fresh.run(TRAINING, PYTHONPATH=str(folder))
    assert done.returncode == 0 and done.stdout == "Lion 0.5\n", done.stdout + done.stderr


BARE = """
class Bare:
    name, capsule = "Bare", None

def mx_register_engines(registry):
    registry.add("Bare", Bare, priority=-1)
"""


@pytest.mark.long
def test_an_engine_without_its_methods_is_one_failure(tmp_path: Path) -> None:
    install(tmp_path, BARE)
    done = fresh.mx("plugins", "check", "aaa", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    (failed,) = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert "can be made" in failed
    assert "Bare lacks workers, is_naive, push, new_variable" in done.stdout and "stop" in done.stdout
