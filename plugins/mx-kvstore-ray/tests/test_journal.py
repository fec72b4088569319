# SPDX-License-Identifier: Apache-2.0
"""What a server's files hold after a disk was full for a moment; files that are of no use."""

from __future__ import annotations

import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

from mx_core.errors import FileError, FileFormatError, MXNetError
from mx_kvstore_ray import journal as journal_module
from mx_kvstore_ray.journal import Journal


@contextmanager
def full_after(size: int) -> Iterator[None]:
    """Files may have `size` bytes at most."""
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def data(number: int, size: int) -> np.ndarray:
    return np.full(size, number, np.uint8)


@pytest.mark.parametrize("size", [0, 100, 20_000, 300_000])
def test_a_change_that_did_not_fit_leaves_nothing(tmp_path: Path, size: int) -> None:
    journal = Journal(tmp_path, 1e9)
    journal.checkpoint([])
    begun = journal.append({"do": "push", "n": 1}, data(1, size))
    (changes,) = tmp_path.glob("changes-*")
    whole = changes.stat().st_size
    for more in {1, 30, (whole - begun) // 2, whole - begun - 1}:
        with full_after(whole + more), pytest.raises(FileError, match=r"changes-1\.bin"):
            journal.append({"do": "push", "n": 2}, data(2, size))
        assert changes.stat().st_size == whole
    for number in (2, 3):
        journal.append({"do": "push", "n": number}, data(number, size))
    journal.close()
    found = [(told["n"], held) for told, held in Journal(tmp_path, 1e9).recover() if told["do"] == "push"]
    assert [number for number, _ in found] == [1, 2, 3]
    for number, held in found:
        np.testing.assert_array_equal(held, data(number, size))


def test_a_file_that_cannot_be_cut_takes_no_more(tmp_path: Path) -> None:
    class Stuck:
        def __init__(self, file) -> None:
            self.file = file

        def __getattr__(self, name: str):
            return getattr(self.file, name)

        def truncate(self, size: int) -> None:
            raise OSError(5, "no more of this disk")

    journal = Journal(tmp_path, 1e9)
    journal.checkpoint([])
    journal.append({"do": "push", "n": 1})
    journal._file = Stuck(journal._file)
    with full_after(100), pytest.raises(FileError, match=r"changes-1\.bin"):
        journal.append({"do": "push", "n": 2}, data(2, 1000))
    with pytest.raises(MXNetError, match="could not be mended"):
        journal.append({"do": "push", "n": 3})
    found = [told["n"] for told, _ in Journal(tmp_path, 1e9).recover() if told["do"] == "push"]
    assert found == [1]


def test_a_killed_process_finds_the_last_checkpoint_and_what_came_after(tmp_path: Path) -> None:
    """After each step the files are read as they are; the changes after a checkpoint lie on those before it."""
    random = np.random.default_rng(0)
    journal, expected, longest = Journal(tmp_path / "server", 1e9), [], 0
    journal.checkpoint([])
    for step in range(60):
        if step % 7 == 6:
            expected = [({"do": "state", "n": step}, data(step, int(random.integers(3000))))]
            journal.checkpoint(expected)
        else:
            change = {"do": "push", "n": step}, data(step, int(random.choice([0, 1, 500, 4000])))
            begun = journal.append(*change)
            if step % 5 == 4:
                journal.cut(begun)
            else:
                expected = [*expected, change]
        (changes,) = (tmp_path / "server").glob("changes-*")
        assert step % 5 == 4 or changes.stat().st_size >= longest
        longest = changes.stat().st_size
        shutil.copytree(tmp_path / "server", tmp_path / "copy", dirs_exist_ok=False)
        found = [record for record in Journal(tmp_path / "copy", 1e9).recover() if record[0]["do"] != "end"]
        shutil.rmtree(tmp_path / "copy")
        assert [told for told, _ in found] == [told for told, _ in expected]
        for (_, held), (_, given) in zip(found, expected, strict=True):
            np.testing.assert_array_equal(held, given)
    journal.close()


def test_a_change_without_its_head_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, 1e9)
    journal.checkpoint([])
    journal.append({"do": "push", "n": 1}, data(1, 500))
    journal.checkpoint([({"do": "state"}, data(1, 500))])
    write = journal_module._write_at
    monkeypatch.setattr(
        journal_module, "_write_at", lambda file, data, place: write(file, data, place) if place else None
    )
    journal.append({"do": "push", "n": 1}, data(2, 500))
    journal.close()
    assert [told["do"] for told, _ in Journal(tmp_path, 1e9).recover()] == ["state", "end"]


def test_checkpoints_are_written_over_older_ones(tmp_path: Path) -> None:
    journal, files = Journal(tmp_path, 1e9), []
    for number, size in enumerate((5000, 3000, 100, 9000, 0), 1):
        journal.checkpoint([({"do": "state", "n": number}, data(number, size))])
        files.append((tmp_path / f"checkpoint-{number}.bin").stat().st_ino)
        ((told, held), (end, _)) = Journal(tmp_path, 1e9).recover()
        assert told["n"] == number and end["do"] == "end"
        np.testing.assert_array_equal(held, data(number, size))
        assert len(list(tmp_path.glob("checkpoint-*"))) == 1
    assert files[0] == files[2] == files[4] and files[1] == files[3]
    journal.close()


def test_a_checkpoint_that_did_not_fit_leaves_the_one_before(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1e9)
    for number in (1, 2):
        journal.checkpoint([({"do": "state", "n": number}, data(number, 1000))])
    journal.append({"do": "push", "n": 3}, data(3, 100))
    for size in (0, 500, 1500, 4000):
        with full_after(size), pytest.raises(FileError, match=r"checkpoint-3\.bin"):
            journal.checkpoint([({"do": "state", "n": 4}, data(4, 5000))])
    journal.append({"do": "push", "n": 5}, data(5, 100))
    found = [told.get("n") for told, _ in Journal(tmp_path, 1e9).recover()]
    assert found == [2, None, 3, 5]
    journal.checkpoint([({"do": "state", "n": 6}, data(6, 5000))])
    assert [told.get("n") for told, _ in Journal(tmp_path, 1e9).recover()] == [6, None]
    journal.close()


def test_files_of_another_version_are_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 1e9)
    journal.checkpoint([])
    journal.close()
    (path,) = tmp_path.glob("checkpoint-*")
    path.write_bytes(b"mxk2" + path.read_bytes()[4:])
    with pytest.raises(FileFormatError, match=r"checkpoint-1\.bin: .* another version of mx wrote it"):
        list(Journal(tmp_path, 1e9).recover())
