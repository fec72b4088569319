# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in programs that wait, train and read: KeyboardInterrupt at once, and then the end."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]

LONG = """
a = mx.nd.ones((2500, 2500))
for i in range(60):
    a = mx.nd.dot(a, a) * 1e-4
"""

PROGRAMS = {
    "waitall": LONG + "now()\nmx.nd.waitall()",
    "asnumpy": LONG + "now()\na.asnumpy()",
    "save": LONG + "now()\nmx.nd.save('a.params', a)",
    "pushing": LONG + "now()\nwhile True:\n    a = a + 1",
    "bulk": LONG + "now()\nwith mx.engine.bulk(16):\n    while True:\n        a = a + 1",
    "naive engine": "mx.nd.ones((1,))\nnow()\nwhile True:\n    mx.nd.dot(mx.nd.ones((500, 500)), mx.nd.ones((500, 500)))",
    "training": """
        x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=500)
        x = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=10), name="softmax")
        batches = mx.io.NDArrayIter(np.zeros((2000, 500), "float32"), np.zeros(2000), 50)
        model = mx.mod.Module(x)
        threading.Timer(0.5, now).start()
        model.fit(mx.io.PrefetchingIter(batches), num_epoch=100000)
        """,
    "ImageRecordIter": """
        from PIL import Image
        stream = io.BytesIO()
        Image.fromarray(np.zeros((240, 320, 3), "uint8")).save(stream, "JPEG")
        with contextlib.closing(mx.recordio.MXIndexedRecordIO("a.idx", "a.rec", "w")) as record:
            for i in range(100):
                header = mx.recordio.IRHeader(0, 0.0, i, 0)
                record.write_idx(i, mx.recordio.pack(header, stream.getvalue()))
        batches = mx.io.ImageRecordIter(path_imgrec="a.rec", data_shape=(3, 224, 224), batch_size=16)
        threading.Timer(0.5, now).start()
        while True:
            batches.reset()
            for batch in batches:
                batch.data[0] * 2
        """,
}

HEAD = """
import contextlib, io, signal, sys, threading, time
import numpy as np
import mx
signal.signal(signal.SIGINT, signal.default_int_handler)
def now():
    print("now", flush=True)
def seen(kind, value, traceback, show=sys.excepthook):
    print(kind.__name__, time.monotonic(), flush=True)
    show(kind, value, traceback)
sys.excepthook = seen
"""


@pytest.mark.parametrize("what", PROGRAMS)
def test_ctrl_c(what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if what == "naive engine":
        monkeypatch.setenv("MXNET_ENGINE_TYPE", "NaiveEngine")
    with subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent(PROGRAMS[what])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        time.sleep(0.2)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        ended = time.monotonic()
    assert out.split()[:1] == ["KeyboardInterrupt"], err
    assert process.returncode == -signal.SIGINT, err
    assert float(out.split()[1]) - sent < 5
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert ended - sent < 8  # pending work is cancelled; what runs has a second
