# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError, FileFormatError
from mx_ndarray import nd


def arrays() -> dict[str, Any]:
    types = ("float32", "float16", "int64", "uint8", "bool")
    made = {name: nd.array([[1, 0, 1]], dtype=name) for name in types}
    return {**made, "empty": nd.zeros((0, 3))}


def assert_same(loaded: Any, saved: dict[str, Any]) -> None:
    assert loaded.keys() == saved.keys()
    for name, array in saved.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name].asnumpy(), array.asnumpy())


def test_npz_and_numpy_agree(tmp_path: Path) -> None:
    saved = arrays()
    nd.save(tmp_path / "a.npz", saved)
    assert_same(nd.load(tmp_path / "a.npz"), saved)
    with np.load(tmp_path / "a.npz") as theirs:
        assert set(theirs.files) == set(saved)
    np.savez_compressed(tmp_path / "b", x=np.ones((100, 100)), y=np.asfortranarray([[1, 2], [3, 4]]))
    theirs = nd.load(tmp_path / "b.npz")
    assert theirs["x"].asnumpy().sum() == 10_000 and theirs["x"].dtype == np.float64
    assert theirs["y"].asnumpy().tolist() == [[1, 2], [3, 4]]
    nd.save(tmp_path / "c.npz", [nd.ones((2,))])
    assert list(nd.load(tmp_path / "c.npz")) == ["arr_0"]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_zipfile_inflates_without_bound_are_refused(tmp_path: Path, method: int) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", method) as archive, archive.open("a.npy", "w") as file:
        np.lib.format.write_array(file, np.zeros(16 << 20, np.uint8))
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=r"bomb.npz: a.npy: expected a member stored or deflated"):
            nd.load(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_npy(tmp_path: Path) -> None:
    nd.save(tmp_path / "a.npy", nd.array([1, 2]))
    assert np.load(tmp_path / "a.npy").tolist() == nd.load(tmp_path / "a.npy").asnumpy().tolist() == [1, 2]
    np.save(tmp_path / "b.npy", np.arange(3, dtype=">i4"))
    assert nd.load(tmp_path / "b.npy").asnumpy().tolist() == [0, 1, 2]
    with pytest.raises(ArgumentError, match="one array"):
        nd.save(tmp_path / "c.npy", {"a": nd.ones((1,))})
    with pytest.raises(ArgumentError, match="bfloat16"):
        nd.save(tmp_path / "c.npy", nd.ones((1,), dtype="bfloat16"))
    assert not (tmp_path / "c.npy").exists()


def test_names_do_not_decide_what_is_read(tmp_path: Path) -> None:
    nd.save(tmp_path / "a.params", {"x": nd.ones((2,))})
    (tmp_path / "a.params").rename(tmp_path / "b.npz")
    assert nd.load(tmp_path / "b.npz")["x"].shape == (2,)


def npy(header: bytes, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


@pytest.mark.parametrize(
    "data",
    [
        b"\x93NUMPY", b"\x93NUMPY\x09\x00", npy(b"{"), npy(b"__import__('os').abort()"),
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}", b"1234"),
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", b"1234"),
        npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"12345678"),
        npy(b"{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}", b"1234"),
    ],
)  # fmt: skip
def test_hostile_npy(data: bytes) -> None:
    with pytest.raises(FileFormatError):
        nd.load_frombuffer(data)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", data)
    with pytest.raises(FileFormatError, match="x"):
        nd.load_frombuffer(file.getvalue())


def test_damaged_npz() -> None:
    file = io.BytesIO()
    np.savez_compressed(file, x=np.arange(1000))
    data = file.getvalue()
    for damaged in (data[:-30], data[:60], data[:100] + b"\0" * 50 + data[150:]):
        with pytest.raises(FileFormatError):
            nd.load_frombuffer(damaged)


def test_safetensors(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    saved = {**arrays(), "brain": nd.array([1, 2], dtype="bfloat16")}
    nd.save(tmp_path / "a.safetensors", saved)
    assert_same(nd.load(tmp_path / "a.safetensors"), saved)
    whole = (tmp_path / "a.safetensors").read_bytes()
    for damaged in (b"", whole[:-1], b"\xff" * 20):
        (tmp_path / "b.safetensors").write_bytes(damaged)
        with pytest.raises(FileFormatError, match=r"b\.safetensors"):
            nd.load(tmp_path / "b.safetensors")
    with pytest.raises(ArgumentError, match="names"):
        nd.save(tmp_path / "c.safetensors", [nd.ones((1,))])
