# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import dtypes
from mx_core.errors import ArgumentError, FileError, FileFormatError, MXNetError
from mx_ndarray import nd

ONE = bytes.fromhex(
    "12010000000000000000000000000000"
    "0100000000000000"
    "c9fa93f900000000"
    "0200000001000000000000000300000000000000"
    "010000000000000000000000"
    "0000803f0000004000004040"
    "0100000000000000010000000000000077"
)


def test_files_of_mxnet_are_read(data: Path) -> None:
    truth = np.load(data / "params_truth.npz")
    named = nd.load(data / "dense.params")
    assert isinstance(named, dict)
    expected = {k[len("dense/") :] for k in truth if k.startswith("dense/")}
    assert set(named) == expected
    for name in expected:
        value = named[name].asnumpy()
        assert value.dtype == truth[f"dense/{name}"].dtype
        np.testing.assert_array_equal(value, truth[f"dense/{name}"])
    listed = nd.load(data / "list.nd")
    assert isinstance(listed, list)
    for i, array in enumerate(listed):
        np.testing.assert_array_equal(array.asnumpy(), truth[f"list/{i}"])
    checkpoint = nd.load(data / "lenet-0003.params")
    assert all(name.startswith(("arg:", "aux:")) for name in checkpoint)


def test_files_are_written_as_mxnet_writes_them(data: Path, tmp_path: Path) -> None:
    nd.save(tmp_path / "one", {"w": nd.array([[1, 2, 3]])})
    assert (tmp_path / "one").read_bytes() == ONE
    for name in ("dense.params", "list.nd", "lenet-0003.params"):
        nd.save(tmp_path / name, nd.load(data / name))
        assert (tmp_path / name).read_bytes() == (data / name).read_bytes()
    nd.save(str(tmp_path / "empty"), [])
    assert (tmp_path / "empty").stat().st_size == 32
    assert nd.load(tmp_path / "empty") == []


def test_old_versions_are_read() -> None:
    values = np.arange(6, dtype="<f4").tobytes()
    head = struct.pack("<QQQ", 0x112, 0, 1)
    none = struct.pack("<Q", 0)
    place = struct.pack("<iii", 1, 0, 0)
    v0 = struct.pack("<III", 2, 2, 3) + place + values
    v1 = struct.pack("<Iiqq", 0xF993FAC8, 2, 2, 3) + place + values
    v3 = struct.pack("<Iiiqq", 0xF993FACA, 0, 2, 2, 3) + place + values
    for record in (v0, v1, v3):
        (array,) = nd.load_frombuffer(head + record + none)
        np.testing.assert_array_equal(array.asnumpy(), np.arange(6).reshape(2, 3))
    scalar = struct.pack("<Iii", 0xF993FACA, 0, 0) + place + values[:4]
    (array,) = nd.load_frombuffer(head + scalar + none)
    assert array.shape == ()
    (nothing,) = nd.load_frombuffer(head + struct.pack("<Iii", 0xF993FAC9, 0, 0) + none)
    assert nothing is None


def test_arrays_without_elements_survive(tmp_path: Path) -> None:
    nd.save(tmp_path / "x", [nd.empty((0, 3)), nd.array(2.0)])
    empty, scalar = nd.load(tmp_path / "x")
    assert (empty.shape, scalar.shape) == ((0, 3), ())


@pytest.mark.parametrize("dtype", dtypes.NAMES)
def test_every_element_type_survives(dtype: str, tmp_path: Path) -> None:
    array = nd.array([[1, 0], [3, 1]], dtype=dtype)
    nd.save(tmp_path / "a.params", [array])
    for restored in (nd.load(tmp_path / "a.params")[0], pickle.loads(pickle.dumps(array))):
        assert restored.dtype == array.dtype and restored.asnumpy().tobytes() == array.asnumpy().tobytes()


@pytest.mark.parametrize("name", ["a.params", "a.npy", "a.npz", "a.safetensors"])
@pytest.mark.filterwarnings("ignore::mx_core.errors.MXUnsafeReadWarning")
def test_what_was_never_computed_is_not_stored(name: str, tmp_path: Path) -> None:
    failed = nd.linalg.potrf(nd.array([[-1.0, 0.0], [0.0, 1.0]]))
    with pytest.raises(ArgumentError, match="not positive definite"):
        nd.waitall()  # takes the failure, so that reads warn only
    with pytest.raises(MXNetError, match=r"\[save\] expected a computed array.*not positive definite"):
        nd.save(tmp_path / name, {"a": failed} if name.endswith("safetensors") else [failed])
    with pytest.raises(MXNetError, match="not positive definite"):
        pickle.dumps(failed)
    assert os.listdir(tmp_path) == []


def test_what_the_system_refuses_is_an_error_of_both_worlds(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused: list[tuple[str, type[OSError]]] = [
        (f"{tmp_path}/none/a.params", FileNotFoundError),
        (f"{tmp_path}", IsADirectoryError),
        (f"{tmp_path}/file/a.params", NotADirectoryError),
    ]
    for path, kind in refused:
        for use in (lambda: nd.save(path, [nd.ones(3)]), lambda: nd.load(path)):
            with pytest.raises(kind, match=path) as caught:
                use()
            assert isinstance(caught.value, MXNetError)
    with pytest.raises(FileError, match="/dev/full"):
        nd.save("/dev/full", [nd.ones(3)])
    assert os.listdir(tmp_path) == ["file"]


def test_other_objects_are_refused(tmp_path: Path) -> None:
    for wrong, kind in ((3, ValueError), ([1], TypeError), ({1: nd.ones((1,))}, TypeError)):
        with pytest.raises(kind):
            nd.save(tmp_path / "x", wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists()


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    nd.save(path, [nd.ones((2,))])
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError):
        nd.save(path, [nd.ones((2,)), nd.test_fails(nd.ones((2,)))])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x"]


def test_sparse_files_are_named(data: Path) -> None:
    with pytest.raises(FileFormatError, match=r"sparse\.params.*(row_sparse|csr).*not supported"):
        nd.load(data / "sparse.params")


def test_every_truncation_is_an_error_that_names_the_place() -> None:
    for length in range(len(ONE)):
        with pytest.raises(FileFormatError, match=r"buffer.*byte \d+"):
            nd.load_frombuffer(ONE[:length])
    with pytest.raises(FileFormatError, match="1 more bytes"):
        nd.load_frombuffer(ONE + b"x")


def test_sizes_that_a_file_only_claims_are_not_allocated() -> None:
    huge = bytearray(ONE)
    huge[36:44] = struct.pack("<q", 2**62)
    huge[44:52] = struct.pack("<q", 2**62)
    with pytest.raises(FileFormatError, match="truncated"):
        nd.load_frombuffer(bytes(huge))
    many = bytearray(ONE)
    many[16:24] = struct.pack("<Q", 2**60)
    with pytest.raises(FileFormatError, match="number of arrays"):
        nd.load_frombuffer(bytes(many))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(ONE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_corrupt_files_give_arrays_or_an_error(changes: list[tuple[int, int]]) -> None:
    corrupt = bytearray(ONE)
    for place, value in changes:
        corrupt[place] = value
    try:
        loaded = nd.load_frombuffer(bytes(corrupt))
    except FileFormatError:
        return
    assert len(loaded) <= 1


def test_messages_name_what_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected bytes, got str"):
        nd.load_frombuffer("weights.params")  # type: ignore[arg-type]
    missing = tmp_path / "nowhere" / "weights.params"
    with pytest.raises(FileNotFoundError) as caught:
        nd.save(missing, nd.ones((2,)))
    assert caught.value.filename == str(missing)


def test_an_empty_array_of_extents_that_overflow_is_refused() -> None:
    shape = struct.pack("<IiI3q", 0xF993FACA, 0, 3, 0, 2**62, 8)
    data = struct.pack("<QQQ", 0x112, 0, 1) + shape + struct.pack("<iii", 1, 0, 0) + struct.pack("<Q", 0)
    with pytest.raises(FileFormatError, match=r"buffer.*\(0, 4611686018427387904, 8\)"):
        nd.load_frombuffer(data)


def test_a_key_that_utf8_cannot_hold_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"key '\\ud800'"):
        nd.save(tmp_path / "a.params", {"\ud800": nd.ones((1,))})
    assert list(tmp_path.iterdir()) == []


def test_links_and_devices_are_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    nd.save(tmp_path / "link", nd.ones((3,)))
    assert (tmp_path / "link").is_symlink() and nd.load(tmp_path / "real")[0].shape == (3,)
    nd.save("/dev/null", nd.ones((3,)))
    assert Path("/dev/null").is_char_device()


FULL = """
import resource, signal, sys
from mx_ndarray import nd
array = nd.ones((200, 1000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
for name in sys.argv[1:]:
    try:
        nd.save(name, {"a": array} if not name.endswith(".npy") else array)
    except OSError as error:
        assert error.filename == name, error
    else:
        raise AssertionError(name)
"""


def test_a_full_disk_names_the_file_in_every_format(tmp_path: Path) -> None:
    names = [str(tmp_path / name) for name in ("a.params", "a.npy", "a.npz", "a.safetensors")]
    subprocess.run([sys.executable, "-c", FULL, *names], check=True, timeout=120)
    assert list(tmp_path.iterdir()) == []


INTERRUPTED = """
import os, signal, threading, time
from mx_ndarray import nd
array = nd.ones((100, 1 << 20))
def interrupt():
    global sent
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
def late(action, delay):
    try:
        threading.Timer(delay, interrupt).start()  # waits for the thread, whose time may be over then
        action()
        time.sleep(5)
    except KeyboardInterrupt:
        return time.monotonic() - sent
nd.save("b.params", array)
nd.save("b.npy", array)
nd.save("b.npz", {"a": array})
times = [late(lambda: nd.save("a.params", array), delay) for delay in (0.02, 0.1, 0.2, 0.4, 0.8)]
times += [late(lambda: nd.save("a.npz", {"a": array}), delay) for delay in (0.02, 0.1, 0.4)]
for kind in ("params", "npy", "npz"):
    times += [late(lambda: nd.load("b." + kind), delay) for delay in (0.02, 0.1, 0.2, 0.3)]
times += [late(array.asnumpy, delay) for delay in (0.01, 0.03, 0.06)]
print(max(times))
"""


@pytest.mark.slow
def test_ctrl_c_is_heard_within_200_ms(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert float(done.stdout) < 0.2


def test_the_state_of_an_array_goes_to_one_without_elements() -> None:
    source = nd.array([[1, 2], [3, 4]], dtype="int32")
    made = nd.NDArray(None)
    assert made.shape == (0,)
    made.__setstate__(source.__getstate__())
    assert (made.dtype, made.asnumpy().tolist()) == (np.int32, [[1, 2], [3, 4]])
    made[:] = 5
    assert source.asnumpy().tolist() == [[1, 2], [3, 4]]
    with pytest.raises(MXNetError, match="expected an array without elements"):
        made.__setstate__(source.__getstate__())
    state, large = source.__getstate__(), nd.ones((1000, 1000))
    mask = nd.dot(large, large)[0, :2] > nd.array([1000, 999])  # late
    pending = nd.contrib.boolean_mask(source, mask)  # its shape is known when it has run
    with pytest.raises(MXNetError, match="expected an array without elements"):
        pending.__setstate__(state)
    assert pending.asnumpy().tolist() == [[3, 4]]
    with pytest.raises(
        ArgumentError, match=r"state: expected a dict with the bytes of 'handle', got \{'handle': None\}"
    ):
        nd.NDArray(None).__setstate__({"handle": None})
    with pytest.raises(FileFormatError, match="truncated"):
        nd.NDArray(None).__setstate__({"handle": source.__getstate__()["handle"][:-1]})
    for wrong in ((), (3,), (None, True)):
        with pytest.raises(TypeError, match=r"NDArray is made by array\(\)"):
            nd.NDArray(*wrong)
