# SPDX-License-Identifier: Apache-2.0
"""`mx migrate`: what it finds in programs, and what it leaves alone."""

import json
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from mx.migrate import examine, examine_source, verdicts
from mx.migrate.command import migrate


def found(source):
    """Line, name and state of each finding."""
    return [(each.line, each.name, each.state) for each in examine_source(textwrap.dedent(source))]


CLEAN = """
    import mxnet as mx
    from mxnet import autograd, gluon, nd
    from mxnet.gluon import nn
    from mxnet.io import NDArrayIter

    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.dense = nn.Dense(10, activation="relu", in_units=4)

        def hybrid_forward(self, F, x):
            return F.relu(self.dense(x))

    net = Net()
    net.initialize(mx.init.Xavier(), ctx=mx.cpu())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore="device")
    data = NDArrayIter(nd.ones((8, 4)), batch_size=4)
    for batch in data:
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(batch.data[0]), nd.zeros((4, 10)))
        loss.backward()
        trainer.step(4)
    print(mx.nd.linalg.gemm2(nd.ones((2, 2)), nd.ones((2, 2)), transpose_a=True).asnumpy())
"""


def test_a_program_that_runs_as_it_is_has_no_findings():
    assert found(CLEAN) == []


@pytest.mark.parametrize(
    ("source", "findings"),
    [
        ("import mxnet as mx\nmx.np.zeros(2)", [(2, "mx.np.zeros", "absent")]),
        ("import mxnet\nmxnet.np.zeros(2)", [(2, "mx.np.zeros", "absent")]),
        ("import mxnet.numpy as np", [(1, "mx.numpy", "absent")]),
        ("from mxnet import np as anp, npx", [(1, "mx.np", "absent"), (1, "mx.npx", "absent")]),
        ("from mxnet import nd\nnd.sparse.csr_matrix(1)", [(2, "mx.nd.sparse.csr_matrix", "absent")]),
        ("import mxnet as mx\na = mx.nd\nb = a\nb.nosuch(1)", [(4, "mx.nd.nosuch", "absent")]),
        ("import mxnet as mx\ngetattr(mx.nd, 'nosuch')", [(2, "mx.nd.nosuch", "absent")]),
        ("from mxnet import nd\nnd.relu(1, slope=2)", [(2, "mx.nd.relu", "different")]),
        ("from mxnet import nd\nnd.Crop(1, num_args=1)", [(2, "mx.nd.Crop", "deprecated")]),
        ("import mxnet as mx\nmx.random.seed(1)", [(2, "mx.random.seed", "different")]),
        ("from mxnet import nd\nnd.zeros(2, stype='csr')", [(2, "mx.nd.zeros", "absent")]),
        ("import mxnet as mx\nm.fit(1, kvstore='nowhere')", [(2, ".fit", "absent")]),
        ("import mxnet as mx\nm = mx.mod.Module(1)\nm.score(1)", [(3, ".score", "different")]),
        ("import mxnet as mx\nmx.__version__ < '1.0'", [(2, "mx.__version__", "different")]),
        ("from mxnet.gluon import nn\nnn.Embedding(3, 4, sparse_grad=True)", [(2, "mx.gluon.nn.Embedding", "absent")]),
        ("import mxnet as mx\nmx.nd.Embedding(1, 2, sparse_grad=True)", [(2, "mx.nd.Embedding", "different")]),
        (
            "from mxnet.gluon.model_zoo import vision\nvision.resnet18_v1(pretrained=True)",
            [(2, "mx.gluon.model_zoo.vision.resnet18_v1", "different")],
        ),
        ("import mxnet as mx\nm.fit(1, kvstore='byteps')", [(2, ".fit", "absent")]),
        ("import mxnet as mx\nmx.optimizer.SGD(learning_rte=1)", [(2, "mx.optimizer.SGD", "different")]),
        ("import mxnet as mx\nmx.opt.create('sgd', lr=1)", [(2, "mx.opt.create", "different")]),
        ("import mxnet as mx\nmx.optimizer.create('sdg')", [(2, "mx.optimizer.create", "different")]),
        ("from mxnet import gluon\ngluon.Trainer(p, 'adam', {'beta': 1})", [(2, "mx.gluon.Trainer", "different")]),
        ("import mxnet as mx\nm.fit(1, optimizer='adam', optimizer_params={'momentum': 1})", [(2, ".fit", "different")]),
        ("m.init_optimizer(optimizer_params=(('lr', 1),))", [(1, ".init_optimizer", "different")]),
        ("import mxnet as mx\nmx.nd.zeros(2).tostype('csr')", [(2, ".tostype", "absent")]),
        ("import mxnet as mx\nx.tostype(stype='row_sparse')", [(2, ".tostype", "absent")]),
        ("kv = mx.kv.create()\nkv.row_sparse_pull('w', out=w)", [(2, ".row_sparse_pull", "absent")]),
        ("w = net.weight.row_sparse_data(ids)\nx.as_np_ndarray()", [(1, ".row_sparse_data", "absent"), (2, ".as_np_ndarray", "absent")]),
        ("s = s.get_backend_symbol('MKLDNN')\nnet.optimize_for(x)", [(1, ".get_backend_symbol", "absent"), (2, ".optimize_for", "absent")]),
        ("net.hybridize(backend='TensorRT')\nnet.hybridize(True, 'x')", [(1, ".hybridize", "absent"), (2, ".hybridize", "absent")]),
        ("import mxnet as mx\nmx.mon.Monitor(1)", [(2, "mx.mon.Monitor", "different")]),
        ("import os\nos.environ['MXNET_NO_SUCH']", [(2, "MXNET_NO_SUCH", "different")]),
        ("from mxnet import *\nnp.ones(2)\nnd.ones(2)", [(2, "mx.np", "absent")]),
    ],
)  # fmt: skip
def test_what_is_found(source, findings):
    assert found(source) == findings


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.zeros(2)",
        "from mxnet import nd\ndef f(nd):\n    return nd.nosuch",
        "from mxnet import nd\nnd = 1\nnd.nosuch",
        "from mxnet import nd\nfor nd in range(2):\n    nd.nosuch",
        "from mxnet import nd\nf = lambda nd: nd.nosuch",
        "import mxnet as mx\nmx.nd.zeros(2).nosuch",
        "import mxnet as mx\ndata.score(1)",
        "import mxnet as mx\nx.tostype('default')\nx.tostype(kind)\nnet.hybridize(True, static_alloc=True)\nnet.hybridize(backend=None)",
        "import mxnet as mx\nmx.nd.relu(1, **options)",
        "from .mxnet import np",
        "import mxnet as mx\nm.fit(1, kvstore='local_allreduce_device')",
        "import mxnet as mx\nm.fit(1, kvstore='local_update_cpu')\nm.fit(1, kvstore='Local_Allreduce_CPU')",
        "from mxnet.gluon import nn\nfrom mxnet.gluon.model_zoo import vision\n"
        "vision.resnet18_v1(pretrained=False)\nnn.Embedding(3, 4, sparse_grad=False)",
        "from torchvision import models\nmodels.resnet18(pretrained=True)",
        "from mxnet import *\nnumbers.nosuch",
        "import mxnet as mx\nmx.optimizer.SGD(learning_rate=1, momentum=0.9, wd=0.1, **more)",
        "import mxnet as mx\nm.fit(1, optimizer=own, optimizer_params={'lr': 1})\nm.fit(1, optimizer_params=dict(wd=1))",
        "from mxnet import gluon\ngluon.Trainer(*given)\ngluon.Trainer(p, 'ADAM', {'beta1': 1, **more})",
    ],
)  # fmt: skip
def test_what_is_left_alone(source):
    assert found(source) == []


def test_advice_says_what_there_is_instead():
    (finding,) = examine_source("import mxnet as mx\nmx.np.zeros(2)")
    assert finding.advice == "arrays of NumPy semantics are not here; `mx.nd`"
    findings = examine_source("import mxnet as mx\nmx.kv.create('byteps')")
    (told,) = [each.advice for each in findings if each.state == "absent"]
    assert told == "no KVStore is named 'byteps'; `device`, or `dist_device_sync` for several machines"


def test_arguments_of_optimizers_are_told_the_nearest_ones():
    (finding,) = examine_source("from mxnet import gluon\ngluon.Trainer(p, 'sgd', {'learning_rte': 1})")
    assert finding.advice.startswith("SGD: unknown arguments: learning_rte; known: momentum, ")
    assert finding.advice.endswith("Did you mean 'learning_rate'?")


def test_names_of_distributed_stores_without_and_with_their_plugin(monkeypatch):
    source = "import mxnet as mx\nm.fit(1, kvstore='dist_sync')\nm.fit(1, kvstore='dist_sync_device')"
    stores = ["device", "local"]
    with_plugin = {"dist_sync@x": "dist_sync@x", "dist_sync_device@x": "dist_device_sync@x"}

    class Stores:
        def __init__(self, aliases):
            self.aliases = dict.fromkeys(stores) | aliases

        def names(self):
            return (*stores, *set(filter(None, self.aliases.values())))

        def __contains__(self, name):
            return name in self.aliases

        def get(self, name):
            return SimpleNamespace(name=self.aliases[name])

    monkeypatch.setattr(verdicts.plugins, "registry", lambda kind: Stores({}))
    said = {each.advice.partition("; ")[2] for each in examine_source(source)}
    assert said == {"distributed stores are in the plug-in mx-kvstore-mpi"}
    monkeypatch.setattr(verdicts.plugins, "registry", lambda kind: Stores(with_plugin))
    (finding,) = examine_source(source)
    assert finding.advice == "no KVStore is named 'dist_sync_device'; `dist_device_sync`"
    (finding,) = examine_source("import mxnet as mx\nm.fit(1, kvstore='dist_nosuch')")
    known = ("device", "dist_device_sync", "dist_sync", "local")
    assert finding.advice == f"no KVStore is named 'dist_nosuch'; there are {', '.join(known)}"


def test_folders_and_files_that_are_not_python(tmp_path):
    (tmp_path / "a.py").write_text("import mxnet as mx\nmx.np\n")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "old.py").write_text("print 'two'\n")
    (tmp_path / "below" / "zero.py").write_bytes(b"x = '\0'\n")
    (tmp_path / "latin.py").write_bytes(
        "# -*- coding: latin-1 -*-\nimport mxnet as mx\nmx.npx # \xe4\n".encode("latin-1")
    )
    findings = examine(tmp_path)
    assert [(each.file.rpartition("/")[2], each.state) for each in findings] == [
        ("a.py", "absent"), ("old.py", "unreadable"), ("zero.py", "unreadable"), ("latin.py", "absent"),
    ]  # fmt: skip


def test_notebooks(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["mx.np"]},
        {
            "cell_type": "code",
            "source": ["%matplotlib inline\n", "import mxnet as mx\n", "files = !ls\n", "mx.nd?"],
        },
        {"cell_type": "code", "source": "print 'two'\n"},
        {"cell_type": "code", "source": "%%bash\necho mx.np"},
        {"cell_type": "code", "source": ["if True:\n", "    !ls\n", "mx.np.zeros(2 % 3)"]},
    ]
    book = tmp_path / "train.ipynb"
    book.write_text(json.dumps({"cells": cells}))
    seen = [(each.file[len(str(tmp_path)) + 1 :], *each[1:4]) for each in examine(tmp_path)]
    assert seen == [
        ("train.ipynb#3", 1, "", "unreadable"),
        ("train.ipynb#5", 3, "mx.np.zeros", "absent"),
    ]
    assert examine(book) == examine(tmp_path)
    for text in ("[1]", "{}", "import mxnet", '{"cells": [{}]}'):
        book.write_text(text)
        (finding,) = examine(book)
        assert finding.state == "unreadable" and "no notebook" in finding.advice


def test_built_in_names_are_not_of_a_module_whose_names_are_all_imported():
    assert found("from mxnet.np import *\ntry:\n    zeros(len([]))\nexcept ImportError:\n    pass\n") == [
        (1, "mx.np", "absent"),
        (3, "mx.np.zeros", "absent"),
    ]


def test_expressions_may_be_nested_deeply(tmp_path):
    for name, text in (("sum.py", "+".join(["1"] * 50_000)), ("calls.py", "f(" * 150 + ")" * 150)):
        (tmp_path / name).write_text(text)
    assert {each.state for each in examine(tmp_path)} <= {"unreadable"}


def test_the_command(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import mxnet as mx\nmx.np\nmx.random.seed(0)\n")
    result = CliRunner().invoke(migrate, [str(script)])
    assert result.exit_code == 1
    assert result.output.splitlines()[0].startswith(f"{script}:2  absent     mx.np")
    assert result.output.endswith("1 absent, 1 different\n")
    result = CliRunner().invoke(migrate, ["--json", str(script)])
    assert [each["name"] for each in json.loads(result.output)] == ["mx.np", "mx.random.seed"]
    script.write_text("import mxnet as mx\nmx.random.seed(0)\n")
    assert CliRunner().invoke(migrate, [str(script)]).exit_code == 0
    script.write_text("")
    result = CliRunner().invoke(migrate, [str(script)])
    assert (result.exit_code, result.output) == (0, "nothing is absent, different or deprecated\n")


def test_it_is_a_command_of_mx():
    done = subprocess.run(
        [sys.executable, "-m", "mx_core.cli", "migrate", "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "List what programs for MXNet use" in done.stdout
