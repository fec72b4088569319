# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out is an error, and the process goes on; a write that does not fit names its file, and the old one stays.

A limit is swept, because what runs out first depends on it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.fresh import run, sampled
from testkit.writers import WRITERS, WRITING

pytestmark = pytest.mark.long

MEMORY = """
import resource, sys
import numpy as np
import mx
net = mx.sym.Variable("data")
for i in range(3):
    net = mx.sym.Activation(mx.sym.Convolution(net, kernel=(3, 3), num_filter=32, pad=(1, 1)), act_type="relu")
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=10), name="softmax")
# The threads of OpenMP exist: libgomp ends a process that has no memory for them.
for _ in range(3): net.simple_bind(data=(4, 3, 32, 32)).forward(is_train=True)[0].wait_to_read()
mx.nd.dot(mx.nd.ones((500, 500)), mx.nd.ones((500, 500))).wait_to_read()
SHAPE = (16, 3, 64, 64)
{prepare}
def work():
{work}
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (used + (int(sys.argv[1]) << 20), hard))
ended = "done"
try:
    work()
    mx.nd.waitall()
except (mx.MXNetError, MemoryError, ImportError, RuntimeError) as error:
    ended = f"{{type(error).__name__}}: {{error}}"
    del error
finally:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, hard))
try:
    mx.nd.waitall()
except mx.MXNetError:
    pass
x = mx.nd.ones((4, 4))
assert (mx.nd.dot(x, x) + x).sum().asscalar() == 80
net.simple_bind(data=(1, 3, 8, 8)).forward(is_train=False)[0].wait_to_read()
print(ended)
"""

#: by name: what is prepared, and what runs under the limit
PROGRAMS = {
    "arrays": ("", "[mx.nd.ones((1 << 20,)) * i for i in range(90)][-1].wait_to_read()"),
    "dots": ("x = mx.nd.ones((1500, 1500))", "y = [mx.nd.dot(x, x) for _ in range(20)]; mx.nd.waitall()"),
    "loading": (
        "import tempfile; p = tempfile.mkdtemp() + '/a.params'; mx.nd.save(p, mx.nd.ones((12 << 20,)))",
        "[mx.nd.load(p) for _ in range(4)]",
    ),
    "binds": ("", "e = net.simple_bind(data=SHAPE); e.forward(is_train=True); e.backward(); mx.nd.waitall()"),
    "inference": (
        "",
        "net.simple_bind(data=SHAPE, grad_req='null').forward(is_train=False)[0].wait_to_read()",
    ),
    "recording": (
        "x = mx.nd.ones((1 << 20,)); x.attach_grad()",
        "with mx.autograd.record():\n        y = x\n        for _ in range(20): y = y * x + 1\n    y.backward()",
    ),
    "saving": (
        "import tempfile; p = tempfile.mkdtemp() + '/a.params'; x = mx.nd.ones((12 << 20,))",
        "y = [x + i for i in range(4)]; mx.nd.save(p, y)",
    ),
    "iterating": (
        "data = np.ones((256, 3, 64, 64), np.float32)",
        "[batch for batch in mx.io.NDArrayIter(data, np.zeros(256), batch_size=32, shuffle=True)]",
    ),
    "training": (
        "import logging; logging.disable()\ndata = mx.io.NDArrayIter(np.ones((32, 3, 32, 32)), np.zeros(32), batch_size=16)",
        "mx.mod.Module(net).fit(data, num_epoch=1)",
    ),
}
LIMITS = (3, 8, 15, 24, 36, 50, 70, 95, 120, 150, 190, 240, 300)  # MiB beyond what is used


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("name", "limit"),
    sampled([(name, limit) for i, name in enumerate(PROGRAMS) for limit in (*LIMITS[i:], *LIMITS[:i])], 13),
)
def test_memory_that_runs_out_is_an_error(name: str, limit: int) -> None:
    prepare, work = PROGRAMS[name]
    done = run(MEMORY.format(prepare=prepare, work=f"    {work}"), limit, timeout=200)
    assert done.returncode == 0, (limit, done.returncode, done.stderr[-3000:])


DISK = (
    WRITING
    + """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
share = float(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(share * max(map(len, before.values()))), hard))
try:
    write(kind, 2)
except (OSError, mx.MXNetError) as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert named(error), f"no file is named: {error!r}"
else:
    raise SystemExit("what does not fit was written")
assert left() == before or as_they_come
write(kind, 3)
print("done")
"""
)


@pytest.mark.parametrize(
    ("writer", "share"), sampled([(writer, share) for writer in WRITERS for share in (0.5, 0.0)], 2)
)
def test_a_full_disk_names_the_file_and_leaves_the_old_one(
    writer: str, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(DISK, writer, share)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]
