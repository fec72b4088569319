# SPDX-License-Identifier: Apache-2.0
"""A writer that is killed at any moment leaves the old file or the new one, and nothing else for long.

`packages/mx-io/tests/test_im2rec.py` kills the packer of images in the same way.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.fresh import counted, run

HEAD = """
import os, random, signal, sys, time
import numpy as np
import mx
rng = random.Random(7)
def killed(write, check, least, most):
    write(0)
    for number in range(1, int(sys.argv[1]) + 1):
        child = os.fork()
        if child == 0:
            try:
                for again in range(1000):
                    write(number)
            finally:
                os._exit(1)
        time.sleep(rng.uniform(least, most))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        check(number)
    write(number)
    print("\\n".join(sorted(os.listdir())))
"""

ARRAYS = """
def write(number):
    mx.nd.save("a.params", {"x": mx.nd.full((500_000,), number), "y": mx.nd.full((3,), number)})
def check(number):
    found = mx.nd.load("a.params")
    x, y = found["x"].asnumpy(), found["y"].asnumpy()
    assert x.shape == (500_000,) and (x == y[0]).all() and y[0] in (number - 1, number), (number, y)
    if y[0] != number:
        write(number)
killed(write, check, 0, 0.03)
"""

CHECKPOINT = """
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=500, name="fc"), name="softmax")
module = mx.mod.Module(net)
module.bind([("data", (2, 500))], [("softmax_label", (2,))])
module.init_params()
module.init_optimizer(optimizer="sgd", optimizer_params={"momentum": 0.9, "learning_rate": 0.1})
def write(number):
    value = {"fc_weight": mx.nd.full((500, 500), number), "fc_bias": mx.nd.full((500,), number)}
    module.set_params(value, {}, force_init=True)
    module.save_checkpoint("model", 1, save_optimizer_states=True)
def check(number):
    net, args, aux = mx.model.load_checkpoint("model", 1)
    bias = args["fc_bias"].asnumpy()[0]
    assert net.list_arguments() == ["data", "fc_weight", "fc_bias", "softmax_label"]
    assert (args["fc_weight"].asnumpy() == bias).all() and bias in (number - 1, number), (number, bias)
    module.load_optimizer_states("model-0001.states")
    if bias != number:
        write(number)
killed(write, check, 0, 0.06)
"""

RECORDS = """
from mx_core.errors import MXNetError
from mx_io.recordio import MXIndexedRecordIO
def write(number):
    with MXIndexedRecordIO("a.idx", "a.rec", "w") as file:
        for key in range(300):
            file.write_idx(key, b"%d %d " % (number, key) * 50)
def check(number):
    # Records are written as they come: what the index names is there, or the file says what is missing.
    try:
        with MXIndexedRecordIO("a.idx", "a.rec", "r") as file:
            found = {key: file.read_idx(key) for key in file.keys}
            numbers = {int(record.split()[0]) for record in found.values()}
            assert len(numbers) <= 1 and max(numbers, default=0) <= number, (number, numbers)
            for key, record in found.items():
                assert record == b"%d %d " % (*numbers, key) * 50, key
    except MXNetError as error:
        assert "a.rec" in str(error) or "a.idx" in str(error), error
killed(write, check, 0, 0.02)
"""


@pytest.mark.parametrize("kills", counted(10, 70))
def test_arrays(kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(HEAD + ARRAYS, kills, timeout=900)
    assert (done.returncode, done.stdout) == (0, "a.params\n"), done.stderr


@pytest.mark.long
@pytest.mark.parametrize("kills", counted(6, 50))
def test_checkpoints_with_states(kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(HEAD + CHECKPOINT, kills, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["model-0001.params", "model-0001.states", "model-symbol.json"]


@pytest.mark.parametrize("kills", counted(6, 30))
def test_indexed_records(kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(HEAD + RECORDS, kills, timeout=900)
    assert (done.returncode, done.stdout.split()) == (0, ["a.idx", "a.rec"]), done.stderr
