# SPDX-License-Identifier: Apache-2.0
"""The packages work the same however Python is started, and say nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

PROGRAM = """
import os
import numpy as np
import mx
x = mx.nd.array([[1, 2], [3, 4]])
x.attach_grad()
with mx.autograd.record():
    y = (mx.nd.dot(x, x) * 2).sum()
y.backward()
if x.grad.asnumpy().tolist() != [[14, 22], [18, 26]]: os._exit(2)
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2), name="softmax")
module = mx.mod.Module(net)
module.fit(mx.io.NDArrayIter(np.ones((4, 3)), np.zeros(4), batch_size=2), num_epoch=1)
module.save_checkpoint("model", 1)
if mx.model.load_checkpoint("model", 1)[0].list_arguments() != net.list_arguments(): os._exit(3)
try:
    mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((2, 3)))
except mx.MXNetError as error:
    if "(2, 3)" not in str(error): os._exit(5)
else:
    os._exit(4)
try:
    mx.nd.load(__import__("sys").executable)
except mx.MXNetError:
    print("all is well")
"""

#: by name: Python's options, and what the environment has or has not
SURROUNDINGS: dict[str, tuple[list[str], dict[str, str | None]]] = {
    "as usual": ([], {}),
    "warnings are errors": (["-W", "error"], {}),
    "development mode": (["-X", "dev", "-W", "error"], {}),
    "without assertions and docstrings": (["-OO"], {}),
    "bytes are no text": (["-bb"], {}),
    "isolated": (["-I"], {}),
    "nothing is at home": ([], {"HOME": None, "XDG_CACHE_HOME": None, "USER": None}),
    "home is not there": ([], {"HOME": "/nonexistent"}),
    "a locale of ASCII": (
        ["-X", "utf8=0"],
        {
            "LC_ALL": "C",
            "LANG": "C",
            "PYTHONCOERCECLOCALE": "0",
            "PYTHONUTF8": None,
            "PYTHONIOENCODING": None,
        },
    ),
    "another hash": ([], {"PYTHONHASHSEED": "1"}),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_it_works(name: str, tmp_path: Path) -> None:
    options, variables = SURROUNDINGS[name]
    folder = tmp_path / "a folder, for größe"
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key not in variables}
    environment |= {key: value for key, value in variables.items() if value is not None}
    done = subprocess.run(
        [sys.executable, *options, "program.py"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "all is well\n", ""), done.stderr
