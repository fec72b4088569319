# SPDX-License-Identifier: Apache-2.0
"""Bad input: an error names the operator or file, what was expected and what came; nothing is left."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mx
from mx_core import errors

pytestmark = pytest.mark.timeout(60)


def ones(*shape: int, **options: Any) -> Any:
    return mx.nd.ones(shape, **options)


def convolution(module: Any, data: Any, *weights: Any, **more: Any) -> Any:
    return module.Convolution(data, *weights, **({"kernel": (3, 3), "num_filter": 4, "no_bias": True} | more))


X = mx.sym.Variable("x")

#: what is done, the kind of error, what its message has
CALLS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "shape": (
        lambda: convolution(mx.nd, ones(1, 3, 8, 8), ones(4, 2, 3, 3)),
        errors.ShapeError, r"\[Convolution\] weight: expected shape \(4, 3, 3, 3\), got \(4, 2, 3, 3\)",
    ),
    "shape of a graph": (
        lambda: convolution(mx.sym, X, name="c1").infer_shape(x=(1, 3, 8, 8), c1_weight=(4, 2, 3, 3)),
        errors.ShapeError, r"\[Convolution 'c1'\] weight: expected shape \(4, 3, 3, 3\), got \(4, 2, 3, 3\)",
    ),
    "number of dimensions": (
        lambda: convolution(mx.nd, ones(1, 3), ones(4, 3, 3, 3)), errors.ShapeError, r"\[Convolution\] .*\(1, 3\)",
    ),
    "broadcast": (
        lambda: ones(2, 3) + ones(4), errors.ShapeError, r"\[broadcast_add\] .*\[2,3\] \[4\]",
    ),
    "reshape": (
        lambda: ones(2, 3).reshape((4, 2)), errors.MXNetError, r"(?s)eshape.*\(4, 2\)",
    ),
    "element type": (
        lambda: ones(2) + ones(2, dtype="float64"),
        errors.DTypeError, r"\[elemwise_add\] rhs: expected float32, got float64; convert with astype",
    ),
    "element type of a graph": (
        lambda: (X + mx.sym.Variable("y")).infer_type(x="float32", y="float64"),
        errors.DTypeError, r"\[elemwise_add '_plus\d+'\] rhs: expected float32, got float64",
    ),
    "unknown element type": (
        lambda: ones(2, dtype="float31"), errors.MXNetError, "float31",
    ),
    "parameter's value": (
        lambda: convolution(mx.nd, ones(1, 3, 8, 8), ones(4, 3, 3, 3), num_filter="many"),
        errors.ArgumentError, r"\[Convolution\] num_filter: expected int, got 'many'",
    ),
    "parameter's bound": (
        lambda: mx.nd.Dropout(ones(2), p=1.5), errors.ArgumentError, r"\[Dropout\] p: expected at most 1, got 1.5",
    ),
    "parameter's choice": (
        lambda: mx.sym.Activation(X, act_type="rule"),
        errors.ArgumentError, r"\[Activation.*\] act_type: expected one of .*'relu'.*, got 'rule'",
    ),
    "parameter's name": (
        lambda: mx.nd.FullyConnected(ones(1, 2), ones(3, 2), ones(3), num_hidden=3, colour=1),
        errors.ArgumentError, r"\[FullyConnected\] .*'colour'.*num_hidden",
    ),
    "missing parameter": (
        lambda: mx.sym.FullyConnected(X, name="fc"),
        errors.ArgumentError, r"\[FullyConnected.*\] required parameter num_hidden of type int",
    ),
    "unknown operator": (
        lambda: mx.nd.Convolutoin, errors.UnknownOperatorError, "'Convolutoin'.*'Convolution'",
    ),
    "unknown operator of a graph": (
        lambda: mx.sym.Convolutoin, errors.UnknownOperatorError, "'Convolutoin'.*'Convolution'",
    ),
    "missing kernel": (
        lambda: ones(2, ctx=mx.gpu(7)).asnumpy(), errors.MXNetError, "gpu",
    ),
    "bound array": (
        lambda: (X * 2).bind(mx.cpu(), {"y": ones(2)}), ValueError, r"x.*missing|missing.*x",
    ),
    "store that is not installed": (
        lambda: mx.kv.create("dist_sink"), errors.MXNetError, "dist_sink.*local",
    ),
    "store without its launcher": (
        lambda: mx.kv.create("dist_sync"), errors.MXNetError, "mx launch -n 2",
    ),
    "unknown optimizer": (
        lambda: mx.optimizer.create("sgdd"), errors.MXNetError, "'?sgdd'?.*sgd",
    ),
    "unknown metric": (
        lambda: mx.metric.create("accuracyy"), errors.MXNetError, "accuracyy",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    call, kind, message = CALLS[name]
    with pytest.raises(kind) as caught:
        call()
    assert re.search(message, str(caught.value)), str(caught.value)
    assert convolution(mx.nd, ones(1, 3, 3, 3), ones(4, 3, 3, 3)).asnumpy().tolist() == [[[[27.0]]] * 4]


def params(path: Path) -> None:
    mx.nd.save(str(path), {"arg:w": ones(3, 4), "aux:m": ones(2)})


def graph(path: Path) -> None:
    mx.sym.FullyConnected(X, num_hidden=3, name="fc").save(str(path))


def records(path: Path) -> None:
    with mx.recordio.MXRecordIO(str(path), "w") as file:
        for i in range(5):
            file.write(bytes([i]) * (7 + i))


def read_records(path: str) -> list[bytes]:
    with mx.recordio.MXRecordIO(path, "r") as file:
        return list(iter(file.read, None))


FILES: dict[str, tuple[Callable[[Path], None], Callable[[str], Any]]] = {
    "w.params": (params, mx.nd.load),
    "net-symbol.json": (graph, mx.sym.load),
    "data.rec": (records, read_records),
}


@pytest.fixture
def same_descriptors() -> Iterator[None]:
    """No file is left open."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.usefixtures("same_descriptors")
@pytest.mark.parametrize("name", FILES)
def test_truncated_files(name: str, tmp_path: Path) -> None:
    write, read = FILES[name]
    path = tmp_path / name
    write(path)
    whole = path.read_bytes()
    read(str(path))
    for length in range(1, len(whole), 3):
        path.write_bytes(whole[:length])
        try:
            read(str(path))
        except errors.FileFormatError as error:
            assert name in str(error), error
        else:  # a record file may end after any record
            assert name == "data.rec" and length % 4 == 0
    assert os.listdir(tmp_path) == [name]


@pytest.mark.usefixtures("same_descriptors")
@pytest.mark.parametrize("name", FILES)
def test_files_of_another_kind(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for content in (b"\x00" * 64, b"\xff" * 64, b"PNG, in truth" * 9, os.urandom(512)):
        path.write_bytes(content)
        with pytest.raises(errors.FileFormatError, match=re.escape(name)):
            FILES[name][1](str(path))


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_not_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        errors.MissingFileError, match=re.escape(name)
    ):  # an MXNetError and a FileNotFoundError
        FILES[name][1](str(tmp_path / name))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "read",
    [
        lambda path: mx.model.load_checkpoint(path, 3),
        lambda path: mx.io.CSVIter(data_csv=path, data_shape=(2,), batch_size=1),
        lambda path: mx.io.MNISTIter(image=path, label=path, batch_size=1),
        lambda path: mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 4, 4), batch_size=1),
        lambda path: mx.image.imread(path),
        lambda path: mx.image.ImageIter(1, (3, 4, 4), path_imgrec=path),
        lambda path: mx.recordio.MXIndexedRecordIO(path, path, "r"),
    ],
)
def test_a_missing_file_is_one_error_of_mxnet_and_of_python(
    read: Callable[[str], Any], tmp_path: Path
) -> None:
    with pytest.raises(mx.MXNetError, match="nothing") as caught:
        read(str(tmp_path / "nothing"))
    assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("missing", ["folder/w.params", "folder/net-symbol.json", "folder/data.rec"])
def test_folders_that_are_not_there(missing: str, tmp_path: Path) -> None:
    write, _ = FILES[Path(missing).name]
    with pytest.raises(OSError, match="folder"):
        write(tmp_path / missing)
    assert os.listdir(tmp_path) == []


def test_a_failed_save_keeps_the_old_checkpoint(tmp_path: Path) -> None:
    prefix = tmp_path / "net"
    net = mx.sym.FullyConnected(X, num_hidden=2, name="fc")
    mx.model.save_checkpoint(str(prefix), 1, net, {"fc_weight": ones(2, 3)}, {})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(Exception, match="fc_bias|NDArray|str"):
        mx.model.save_checkpoint(str(prefix), 1, net, {"fc_weight": ones(5, 3), "fc_bias": "no array"}, {})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_failed_packing_leaves_no_records(tmp_path: Path) -> None:
    from mx_io import im2rec

    images = tmp_path / "images"
    images.mkdir()
    (images / "bad.jpg").write_bytes(b"\xff\xd8\xff no image")
    (tmp_path / "set.lst").write_text("0\t1.0\tbad.jpg\n")
    with pytest.raises(errors.MXNetError, match=r"bad\.jpg"):
        im2rec.pack(tmp_path / "set.lst", images)
    assert sorted(os.listdir(tmp_path)) == ["images", "set.lst"]


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ({"fc_weight": (2, 9), "fc_bias": (2,)}, r"'fc_weight': expected shape \(2, 3\), got \(2, 9\)"),
        ({"fc_weight": (2, 3)}, "'fc_bias'"),
    ],
)
def test_a_checkpoint_of_another_network(
    saved: dict[str, tuple[int, ...]], message: str, tmp_path: Path
) -> None:
    prefix = str(tmp_path / "net")
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    mx.model.save_checkpoint(prefix, 1, net, {name: ones(*shape) for name, shape in saved.items()}, {})
    module = mx.mod.Module.load(prefix, 1, label_names=None)
    with pytest.raises(ValueError, match=message):
        module.bind([("data", (4, 3))], for_training=False)
    assert not module.binded


def test_a_loss_of_labels_that_do_not_fit() -> None:
    data = mx.io.NDArrayIter(np.zeros((8, 3), np.float32), np.zeros((8, 5), np.float32), 4)
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
    with pytest.raises(errors.ShapeError, match=r"\[SoftmaxOutput 'softmax'\] label"):
        module.bind(data.provide_data, data.provide_label)
