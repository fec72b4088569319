# SPDX-License-Identifier: Apache-2.0
"""`import mxnet` gives mx, whatever part of it is imported, in whatever order."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import mxnet
import pytest
from mxnet import _real

import mx

#: what MXNet 1.9.1 wrote of {"w": [[1, 2, 3]], "i": [7] of int8}
PICKLE = (
    "80027d7100285801000000777101636d786e65742e6e6461727261792e6e6461727261790a4e4441727261790a71024e"
    "8571035271047d7105580600000068616e646c657106635f5f6275696c74696e5f5f0a6279746561727261790a710763"
    "5f636f646563730a656e636f64650a71085839000000c389c3bac293c3b9000000000200000001000000000000000300"
    "0000000000000100000000000000000000000000c2803f0000004000004040710958060000006c6174696e31710a8671"
    "0b52710c85710d52710e7362580100000069710f680268035271107d71116806680768085825000000c389c3bac293c3"
    "b900000000010000000100000000000000010000000000000005000000077112680a8671135271148571155271167362"
    "752e"
)
SAME = [
    "attribute", "autograd", "base", "callback", "contrib", "context", "engine", "executor", "image", "init", "initializer",
    "io", "kv", "kvstore", "lr_scheduler", "metric", "mod", "model", "module", "mon", "monitor", "name", "nd", "ndarray",
    "operator", "opt", "optimizer", "profiler", "random", "recordio", "rnn", "sym", "symbol", "test_utils", "util", "viz",
    "visualization",
]  # fmt: skip
FILES = [
    ("contrib.amp.amp", "contrib.amp"), ("image.det", "image"), ("image.detection", "image"), ("image.image", "image"),
    ("io.io", "io"), ("kvstore.base", "kvstore"), ("kvstore.kvstore", "kvstore"), ("ndarray.ndarray", "nd"),
    ("optimizer.optimizer", "optimizer"), ("rnn.io", "rnn"), ("rnn.rnn", "rnn"), ("rnn.rnn_cell", "rnn"),
    ("symbol.symbol", "sym"),
]  # fmt: skip
DEEPER = ["module.base_module", "module.bucketing_module", "ndarray.linalg", "ndarray.contrib", "ndarray.random",
          "ndarray.utils", "symbol.random", "symbol.linalg", "optimizer.optimizer", "contrib.amp"]  # fmt: skip


def run(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *options, "-c", code], capture_output=True, text=True
    )


@pytest.mark.parametrize("name", SAME)
def test_names_are_those_of_mx(name: str) -> None:
    assert getattr(mxnet, name) is getattr(mx, name)


def test_modules_are_imported_under_the_name_first_of_all() -> None:
    code = f"""
import importlib, sys
for name in {SAME + DEEPER!r}:
    module = importlib.import_module(f"mxnet.{{name}}")
    assert sys.modules[module.__name__] is module, name
import mx
for name in {SAME + DEEPER!r}:
    assert importlib.import_module(f"mx.{{name}}") is sys.modules[f"mxnet.{{name}}"], name
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("top", ["mx", "mxnet"])
def test_files_of_packages_are_the_packages(top: str) -> None:
    code = f"""
import importlib, operator
import {top}
for name, package in {FILES!r}:
    assert importlib.import_module(f"{top}.{{name}}") is operator.attrgetter(package)({top}), name
from {top}.ndarray.ndarray import NDArray
from {top}.symbol.symbol import Symbol
from {top}.io.io import DataBatch
assert isinstance({top}.nd.ones((2,)), NDArray) and isinstance({top}.sym.Variable("x"), Symbol)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("top", ["mx", "mxnet"])
def test_files_of_packages_are_attributes_too(top: str) -> None:
    done = run(f"import {top} as m; assert m.nd.ndarray.NDArray is m.nd.NDArray; assert m.io.io is m.io")
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("top", ["mx", "mxnet"])
def test_star_imports_take_what_is_public(top: str) -> None:
    code = f"""
before = set(globals())
from {top} import *
found = set(globals()) - before - {{"before"}}
import {top}
assert {{"nd", "sym", "io", "mod", "cpu", "gpu", "autograd", "NDArray", "Symbol", "AttrScope"}} <= found, found
assert all(getattr({top}, name) is globals()[name] for name in found)
assert not any(name.startswith("_") for name in found) and "annotations" not in found
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_versions_are_those_of_the_interface_and_of_mx() -> None:
    assert mxnet.__version__ == "1.9.1" and mx.__version__ != mxnet.__version__
    assert set(mx._PLACES) <= set(dir(mxnet))


@pytest.mark.parametrize(
    "statement",
    ["from mxnet.numpy import random", "import mxnet.numpy"],
)
def test_what_is_absent_is_told(statement: str) -> None:
    with pytest.raises(ImportError, match="is not implemented; see the guide"):
        exec(statement, {})


def test_what_mxnet_never_had_is_told() -> None:
    with pytest.raises(AttributeError, match="did you mean mx.autograd"):
        mxnet.autogrd
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'mxnet\.nothing'"):
        exec("import mxnet.nothing", {})


def test_threads_may_import_it_at_once() -> None:
    code = """
import mx, mxnet, threading
found, gate = [], threading.Barrier(8)
def importer(statement):
    gate.wait()
    space = {}
    exec(statement, space)
    found.append(space["io"].NDArrayIter)
statements = ["import mxnet.io as io", "from mxnet import io", "import mx.io as io", "from mx import io"] * 2
threads = [threading.Thread(target=importer, args=(s,)) for s in statements]
[t.start() for t in threads]; [t.join() for t in threads]
assert len(found) == 8 and len(set(found)) == 1
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_its_parts_are_served_while_it_is_imported() -> None:
    code = """
import atexit, sys, threading

def register(*arguments, real=atexit.register):  # what mx calls while it is imported
    def ask():
        import mxnet.nd as found
        assert found is sys.modules["mx_ndarray.nd"]
        answers.append(found)
    threads.append(threading.Thread(target=ask))
    threads[-1].start()
    return real(*arguments)

threads, answers = [], []
atexit.register = register
import mxnet
[thread.join() for thread in threads]
assert answers and len(answers) == len(threads)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_folders_may_be_bytes() -> None:
    done = run("import sys; sys.path += [b'/nowhere', None]; import mxnet")
    assert done.returncode == 0, done.stderr


def test_it_is_refused_beside_mxnet_itself(tmp_path: Path) -> None:
    other = tmp_path / "mxnet"
    other.mkdir()
    (other / "libinfo.py").touch()
    _real.refuse([str(tmp_path / "nowhere"), *sys.path], mxnet.__file__)
    with pytest.raises(ImportError, match=f"MXNet itself is installed in {other}"):
        _real.refuse([*sys.path, str(tmp_path)], mxnet.__file__)
    done = run(f"import sys; sys.path.append({str(tmp_path)!r}); import mxnet")
    assert done.returncode == 1 and f"ImportError: MXNet itself is installed in {other}" in done.stderr
    with pytest.raises(ImportError, match="uninstall one of them"):
        _real.refuse([], str(other / "__init__.py"))


def test_pickles_of_mxnet_are_read() -> None:
    written = bytes.fromhex(PICKLE)
    found = pickle.loads(written)
    assert type(found["w"]) is mx.nd.NDArray
    assert found["w"].asnumpy().tolist() == [[1, 2, 3]]
    assert (found["i"].dtype.__name__, found["i"].asscalar()) == ("int8", 7)
