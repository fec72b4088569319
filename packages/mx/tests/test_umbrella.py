# SPDX-License-Identifier: Apache-2.0
import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import mx
from testkit.forked import Done, Forks


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    """Interpreters that have not loaded mx."""
    with Forks("import numpy", "-W", "error") as made:
        yield made


@pytest.mark.parametrize("name", sorted(mx._PLACES))
def test_every_name_resolves(name: str) -> None:
    assert getattr(mx, name) is not None
    assert name in dir(mx)


def test_import_is_light() -> None:
    code = (
        "import sys, mx; print(sorted(m for m in sys.modules if m in ('numpy', 'mx_ndarray', 'mx_engine')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_unknown_name_has_a_hint() -> None:
    with pytest.raises(AttributeError, match="did you mean mx.optimizer"):
        mx.optimiser


@pytest.mark.parametrize("name", ["np", "npx", "th"])
def test_what_is_not_implemented_names_the_guide(name: str) -> None:
    with pytest.raises(AttributeError, match=f"mx.{name} is not implemented; see the guide 'Move a script"):
        getattr(mx, name)


def test_missing_part_names_its_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(mx), "kvstore", raising=False)
    monkeypatch.setitem(sys.modules, "mx_kvstore", None)
    with pytest.raises(AttributeError, match="install mx-kvstore"):
        mx.kvstore


def test_readers_of_types_see_the_same_names() -> None:
    module = ast.parse(Path(mx.__file__).read_text())
    block = next(s for s in module.body if isinstance(s, ast.If) and ast.unparse(s.test) == "TYPE_CHECKING")
    names = {
        alias.asname for s in block.body if isinstance(s, (ast.Import, ast.ImportFrom)) for alias in s.names
    }
    names |= {ast.unparse(s.targets[0]) for s in block.body if isinstance(s, ast.Assign)}
    assert {name for name in names if name and not name.startswith("_")} == set(mx._PLACES)


def test_submodules_are_imported_as_the_same_modules() -> None:
    names = sorted(name for name, place in mx._PLACES.items() if ":" not in place)
    code = f"""
import importlib, sys
import mx
for name in {names}:
    found = importlib.import_module(f"mx.{{name}}")
    assert found is getattr(mx, name) is sys.modules[f"mx.{{name}}"]
    assert found.__spec__.name == found.__name__ and sys.modules[found.__name__] is found
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_files_are_known_of_modules_that_others_have_imported() -> None:
    code = """
import mx
mx.gluon.contrib.rnn.LSTMPCell  # imports the module whose files are asked for next
assert mx.gluon.rnn.rnn_layer.LSTM is mx.gluon.rnn.LSTM
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_imports_below_a_submodule_and_from_it() -> None:
    code = """
import sys
from mx.io import NDArrayIter
from mx.ndarray import array
import mx.ndarray.random, mx.sym.linalg
import mx_io.io, mx_ndarray.nd.random, mx_symbol.sym.linalg
assert NDArrayIter is mx_io.io.NDArrayIter
assert mx.ndarray.random is mx_ndarray.nd.random and mx.sym.linalg is mx_symbol.sym.linalg
import mx
sys.modules["mxnet"] = mx
import mxnet.contrib.amp, mxnet.ndarray as ndarray
from mxnet.io import NDArrayIter as Same
assert Same is NDArrayIter and ndarray is mx.nd and mxnet.contrib is sys.modules["mx.contrib"]
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "found"),
    [("mx.io", True), ("mx.ndarray.linalg", True), ("mx.symbol.nothing", True), ("mx.test_utils", False),
     ("mx.nothing", False), ("mx.th", None), ("mx.contrib.onnx", None), ("mx.sym.sparse.nothing", False)],
)  # fmt: skip
def test_finding_a_module_imports_nothing(name: str, found: bool | None) -> None:
    """Python holds the lock of all imports meanwhile, which a thread within another import may wait for."""
    code = f"""
import importlib, sys, mx
parent, finder = {name!r}.rpartition(".")[0], sys.meta_path[0]
path, before = importlib.import_module(parent).__path__ if parent != "mx.sym.sparse" else [], set(sys.modules)
try:
    spec = finder.find_spec({name!r}, path)
    assert (spec is not None) is {found!r}, spec
except ModuleNotFoundError as error:
    assert {found!r} is None, error
assert set(sys.modules) == before, set(sys.modules) - before
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.long
def test_threads_import_modules_at_once() -> None:
    code = """
import mx, threading
gate, found = threading.Barrier(9), []
def importer(statement):
    gate.wait()
    try:
        exec(statement, {})
    except ImportError as error:
        assert "not implemented" in str(error), error
    found.append(statement)
statements = ["import mx.gluon", "import mx.th", "import mx.nd.sparse", "from mx import io", "import mx.io",
              "from mx.ndarray import linalg", "import mx.nd.linalg", "import json.tool", "import mx.optimizer"]
threads = [threading.Thread(target=importer, args=(s,), daemon=True) for s in statements]
[t.start() for t in threads]; [t.join(20) for t in threads]
assert len(found) == 9, set(statements) - set(found)
"""
    for _ in range(3):
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    "statement",
    [
        "from mx.optimizer.optimizer import SGD, Adam, Updater", "from mx.optimizer import optimizer; optimizer.SGD",
        "import mx.optimizer.optimizer as o; assert o.Adam is o.optimizer.Adam", "import mx; mx.opt.optimizer.NAG",
        "from mx.kvstore.base import KVStoreBase, create", "import mx.kvstore.base as base; base.create('local')",
        "from mx.contrib.amp.amp import convert_model", "import mx.contrib.amp.amp as amp; amp.convert_symbol",
        "from mx.contrib.amp import amp; amp.init", "from mx.contrib.amp.loss_scaler import LossScaler",
        "from mx.contrib import amp; amp.loss_scaler.LossScaler, amp.scale_loss", "import mx; mx.contrib.amp.amp.list_lp16_ops",
        "from mx.image import det; det.ImageIter",
        "import mx.ndarray.ndarray as n; n.ones((2,))", "import mx.nd.ndarray as n; n.ones((2,))",
        "import mx.symbol.symbol as s; s.Variable", "import mx.image.image as i; i.imdecode",
        "import mx.io.io as i; i.NDArrayIter", "import mx.rnn.rnn_cell as r; r.LSTMCell",
        "from mx.contrib.svrg_optimization.svrg_optimizer import _SVRGOptimizer, _AssignmentOptimizer",
        "import mx; mx.contrib.svrg_optimization.svrg_optimizer._SVRGOptimizer",
        "from mx.optimizer.contrib import GroupAdaGrad", "from mx.optimizer.optimizer import Test",
        "import mx.kvstore.kvstore as k; k.create", "import mx.image.detection as d; d.ImageIter",
        "from mx.gluon.nn.basic_layers import Dense", "from mx.gluon.block import HybridBlock",
        "import mx; mx.gluon.nn.basic_layers.Dense, mx.gluon.rnn.rnn_cell.LSTMCell, mx.gluon.contrib.nn.basic_layers.Identity",
        "from mx.gluon.contrib.cnn.conv_layers import DeformableConvolution", "from mx.gluon.contrib.nn import basic_layers",
        "from mx.executor_manager import _split_input_slice", "from mx.model import _create_kvstore, _update_params",
        "from mx.module.base_module import BaseModule, _as_list, _check_input_names, _parse_data_desc",
    ],
)  # fmt: skip
def test_files_of_mxnet_have_what_programs_import_from_them(statement: str, forks: Forks) -> None:
    assert forks.run(statement) == Done(0, "")


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("optimizer.optimizer", "NDabs", "mx.optimizer.NDabs is not implemented; .*: an internal name"),
        ("kvstore.kvstore_server", "KVStoreServer", "mx.kvstore.kvstore_server is .*: `mx launch -s`"),
        ("contrib.amp.amp", "list_fp32_ops", "mx.contrib.amp.list_fp32_ops is not .*: lists operators by a rule"),
        ("contrib.amp.lists", "symbol_fp16", "mx.contrib.amp.lists is not implemented; .* by a rule"),
        ("contrib.amp.lists", "symbol_fp16", "mx.contrib.amp.lists is .*: lists operators by a rule"),
    ],
)  # fmt: skip
def test_files_of_mxnet_say_what_they_lack(module: str, name: str, said: str, forks: Forks) -> None:
    code = f"try:\n from mx.{module} import {name}\nexcept ImportError as error:\n print(error)"
    done = forks.run(code)
    assert done.status == 0 and re.search(said, done.output) and "see the guide" in done.output, done


def test_a_thread_may_import_a_part_while_another_imports_mx() -> None:
    """Python looks for `mx.nd` at once, though `mx` is not whole."""
    code = """
import atexit, sys, threading
begun, asked, found = threading.Event(), threading.Event(), []

def register(*arguments, real=atexit.register):  # what mx calls while it is imported
    sys.meta_path.insert(0, Watch)
    begun.set()
    assert asked.wait(20)
    return real(*arguments)

class Watch:
    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if fullname == "mx.nd":
            asked.set()

def importer():
    begun.wait(20)
    import mx.nd, mx.contrib  # a module of another package, and a file of its own
    found.append(mx.nd)
    assert mx.contrib.__spec__.origin.endswith("__init__.py") and sys.modules["mx.contrib"] is mx.contrib
    try:
        import mx.nothing
    except ModuleNotFoundError as error:
        found.append(str(error))

atexit.register = register
thread = threading.Thread(target=importer)
thread.start()
import mx
thread.join(20)
assert found == [mx.nd, "No module named 'mx.nothing'"], found
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


def test_a_question_whether_a_module_is_there_has_an_answer() -> None:
    for name in (
        "mx.th",
        "mx.nothing",
        "mx.nd.nothing",
        "mx.ndarray.sparse",
        "mx.contrib.onnx",
    ):
        assert importlib.util.find_spec(name) is None, name
    for name in ("mx.nd", "mx.module", "mx.ndarray.linalg", "mx.test_utils", "mx.gluon.probability"):
        assert importlib.util.find_spec(name) is not None, name


def refused(statement: str) -> ModuleNotFoundError:
    with pytest.raises(ModuleNotFoundError) as caught:
        exec(statement, {})
    return caught.value


def test_imports_of_what_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    for statement in ("import mx.th", "from mx import th", "from mx.th import CudaModule"):
        assert "mx.th is not implemented; see the guide" in str(refused(statement))
    assert str(refused("import mx.nothing")) == "No module named 'mx.nothing'"
    assert "No module named 'mx.ndarray.nothing'" in str(refused("import mx.ndarray.nothing"))
    assert "sparse arrays are not implemented; see the guide" in str(refused("import mx.nd.sparse"))
    assert "mx.contrib.onnx is not implemented; see the guide" in str(refused("import mx.contrib.onnx"))
    assert "No module named 'mx.kv.nothing'" in str(refused("import mx.kv.nothing"))
    assert "No module named 'mx.Context'" in str(refused("import mx.Context"))
    monkeypatch.delitem(vars(mx), "kvstore", raising=False)
    monkeypatch.delitem(sys.modules, "mx.kvstore", raising=False)
    monkeypatch.setitem(sys.modules, "mx_kvstore", None)
    for statement in ("import mx.kvstore", "from mx import kvstore", "from mx.kvstore import create"):
        error = refused(statement)
        assert "mx.kvstore comes with mx-kvstore, which is not installed: install mx-kvstore" in str(error)
        assert error.name == "mx_kvstore"


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("mx.io.LibSVMIter", "mx.io.LibSVMIter is not implemented; see the guide"),
        ("mx.contrib.onnx", "mx.contrib.onnx is not implemented; see the guide"),
        ("mx.kv.KVStoreServer", "`mx launch -s` of the plug-in"),
        ("mx.nd.cast_storage", "mx.nd.cast_storage is not implemented; .*: only dense arrays are here"),
        ("mx.gluon.nothing", "module 'mx_gluon' has no attribute 'nothing'"),
        ("mx.io.NDArrayItre", "has no attribute 'NDArrayItre'"),
        ("mx.nd.cast_storages", "operator 'cast_storages' is not registered"),
    ],
)
def test_a_name_that_is_missing_is_told(expression: str, said: str) -> None:
    with pytest.raises(AttributeError, match=said):
        eval(expression, {"mx": mx})


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("io", "LibSVMIter", "mx.io.LibSVMIter is not implemented; see the guide 'Move a script"),
        ("contrib", "quantization", "mx.contrib.quantization is not implemented; see the guide"),
        ("ndarray", "sparse", "sparse arrays are not implemented; see the guide"),
        ("ndarray", "FullyConected", "Did you mean 'FullyConnected'"),
        ("test_utils", "has_tvm_ops", "mx.test_utils.has_tvm_ops is not implemented; .*: of MXNet's own tests"),
        ("util", "set_np", "mx.util.set_np is not implemented; see the guide"),
        ("io", "LibSVMIter", "mx.io.LibSVMIter is not implemented; see the guide"),
        ("kvstore", "KVStoreServer", "mx.kvstore.KVStoreServer is not implemented; .*: `mx launch -s`"),
        ("sym.contrib", "foreach", "mx.sym.contrib.foreach is not implemented; .*`mx.nd.contrib.foreach`"),
        ("symbol.contrib", "cond", "mx.sym.contrib.cond is not implemented; .*`mx.nd.contrib.foreach`"),
        ("optimizer", "Nothing", "cannot import name 'Nothing'|has no attribute 'Nothing'"),
    ],
)  # fmt: skip
def test_a_name_that_is_missing_is_told_after_and_by_an_import(
    module: str, name: str, said: str, forks: Forks
) -> None:
    code = f"""
import importlib
try:
    from mx.{module} import {name}
except ImportError as error:
    print(error)
import mx
found = importlib.import_module("mx.{module}")
assert not hasattr(found, "{name}") and getattr(found, "{name}", 5) == 5
try:
    mx.{module}.{name}
except AttributeError as error:
    print(error)
"""
    by_import, by_attribute = forks.run(code).output.splitlines()
    assert re.search(said, by_import), by_import
    assert by_attribute == by_import or module == "optimizer"


def test_a_module_that_is_being_imported_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("mx_io.io.LibSVMIter")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    from mx.io import LibSVMIter

    assert LibSVMIter is made


def test_what_a_plugin_brings_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.io, "LibSVMIter", dict, raising=False)
    assert mx.io.LibSVMIter is dict


@pytest.mark.long
def test_names_of_arrays_that_the_graphs_have() -> None:
    import mx
    import mx_symbol

    assert mx.nd.CachedOp is mx.ndarray.CachedOp is mx_symbol.CachedOp
