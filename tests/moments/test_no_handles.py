# SPDX-License-Identifier: Apache-2.0
"""No descriptor is left, or no thread can be started: an error that says so, or the same result; then all goes on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from testkit.fresh import run

pytestmark = pytest.mark.long

HEAD = """
import os, resource, sys, tempfile
import numpy as np
import mx
from mx_io import codecs
from mx_io.im2rec import pack
from mx_io.im2rec.listing import ListEntry
os.chdir(tempfile.mkdtemp())
x = mx.nd.array(np.arange(300).reshape((3, 100)))
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3), name="softmax")
os.makedirs("images")
for i in range(6):
    with open(f"images/a{i}.png", "wb") as file: file.write(codecs.encode(np.full((9, 9, 3), i, np.uint8), ".png"))
def packed(): pack([ListEntry(i, (float(i),), f"a{i}.png") for i in range(6)], "images", "a", pass_through=True)
packed()
def images():
    read = mx.io.ImageRecordIter(path_imgrec="a.rec", data_shape=(3, 9, 9), batch_size=3, preprocess_threads=2)
    return [batch.data[0].asnumpy()[0, 0, 0, 0] for batch in read] == [0, 3]
"""

DESCRIPTORS = """
def attempt():
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))  # so that none is left
    try:
        work()
    except (OSError, mx.MXNetError) as error:
        return str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    return "done"
for _ in range(2): work()  # all modules are loaded
print(attempt())
work()
"""

#: by name: what opens files, and which of them the error names; none if it needs no descriptor
OPENING = {
    "saving": ("mx.nd.save('a.params', x)", "a.params"),
    "loading": (
        "if not os.path.exists('a.params'): mx.nd.save('a.params', x)\n    mx.nd.load('a.params')",
        "a.params",
    ),
    "npz": ("mx.nd.save('a.npz', {'x': x}); mx.nd.load('a.npz')", "a.npz"),
    "symbols": ("net.save('a.json'); mx.sym.load('a.json')", "a.json"),
    "records": ("from mx_io.recordio import MXRecordIO\n    MXRecordIO('a.rec', 'r').read()", "a.rec"),
    "images": ("assert images()", "a.rec"),
    "packing": ("packed()", "a."),
    "profiles": (
        "mx.profiler.set_config(filename='a.profile'); mx.profiler.set_state('run'); (x + 1).wait_to_read()\n"
        "    mx.profiler.set_state('stop'); mx.profiler.dump()",
        "a.profile",
    ),
    "shared memory": ("mx.nd.ones((100_000,), ctx=mx.Context('cpu_shared')).asnumpy()", ""),
    "computing": ("assert (x + 1).sum().asscalar() == 45150", None),
}


@pytest.mark.parametrize("name", OPENING)
def test_no_descriptor_is_left(name: str) -> None:
    work, named = OPENING[name]
    done = run(HEAD + f"def work():\n    {work}\n" + DESCRIPTORS)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    said = done.stdout.strip()
    assert said == "done" if named is None else said != "done" and named in said, said
    assert named is None or "Too many open files" in said or "no file descriptor is left" in said, said


#: pthread_create fails while `refuse` is on
REFUSING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
static volatile int refusing;
void refuse(int on) { refusing = on; }
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = dlsym(RTLD_NEXT, "pthread_create");
  return refusing ? EAGAIN : real(thread, attributes, run, argument);
}
"""

THREADS = """
import ctypes
library = ctypes.CDLL(os.environ["LD_PRELOAD"])
library.refuse(1)
try:
    work()
    said = "done"
except (mx.MXNetError, RuntimeError) as error:
    said = str(error)
    del error
library.refuse(0)
print(said)
work()
"""

#: by name: what starts threads for the first time, and whether it can do without them
STARTING = {
    "operators": ("assert mx.nd.dot(x, x.T).shape == (3, 3) and (x + 1).sum().asscalar() == 45150", True),
    "python operators": (
        "class Twice(mx.operator.CustomOp):\n"
        "        def forward(self, is_train, req, in_data, out_data, aux): self.assign(out_data[0], req[0], in_data[0] * 2)\n"
        "    @mx.operator.register('twice')\n"
        "    class TwiceProp(mx.operator.CustomOpProp):\n"
        "        def create_operator(self, ctx, shapes, dtypes): return Twice()\n"
        "    assert mx.nd.Custom(x, op_type='twice').sum().asscalar() == 89700",
        True,
    ),
    "binding": (
        "e = net.simple_bind(data=(2, 4)); e.forward(is_train=True); e.backward(); e.grad_arrays[1].wait_to_read()",
        True,
    ),
    "images": ("assert images()", False),
    "prefetching": (
        "ahead = mx.io.PrefetchingIter(mx.io.NDArrayIter(np.ones((4, 2)), batch_size=2))\n"
        "    assert [b.data[0].shape for b in ahead] == [(2, 2)] * 2",
        False,
    ),
}


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refusing")
    (folder / "refusing.c").write_text(REFUSING)
    command = ["gcc", "-shared", "-fPIC", "-O1", "refusing.c", "-o", "refusing.so", "-ldl"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return folder / "refusing.so"


@pytest.mark.parametrize("name", STARTING)
def test_no_thread_can_be_started(name: str, refusing: Path) -> None:
    work, can_do_without = STARTING[name]
    environment = {"LD_PRELOAD": os.fspath(refusing), "OMP_NUM_THREADS": "1"}  # libgomp would end the process
    done = run(HEAD + f"def work():\n    {work}\n" + THREADS, **environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    said = done.stdout.strip()
    assert said == "done" or (not can_do_without and "thread" in said), said
