# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mx_core.files import atomic_write


def test_replaces_the_file_and_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    target.chmod(0o640)
    with atomic_write(target) as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["a.bin"]


def test_new_files_have_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with atomic_write(tmp_path / "a.txt", "w", encoding="utf-8") as file:
        file.write("é")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "é"


def test_a_failure_leaves_everything_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic_write(target) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert target.read_bytes() == b"old" and os.listdir(tmp_path) == ["a.bin"]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "no" / "a.bin"):
        pass


KILLED = """
import os, signal, sys
from mx_core.files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_goes_with_the_next_save(tmp_path: Path) -> None:
    target = tmp_path / "weights.bin"
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False, timeout=60)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".weights.bin.")
    others = [".weights.bin.mine", ".weights.bin.b.abcdefgh.partial", ".weights.abcdefgh.partial"]
    for name in others:
        (tmp_path / name).write_bytes(b"kept")
        os.utime(tmp_path / name, (0, 0))
    with atomic_write(target) as file:
        file.write(b"1")
    assert left.exists()  # it may still be being written
    os.utime(left, (0, 0))
    with atomic_write(target) as file:
        file.write(b"2")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*others, "weights.bin"])


def test_a_slow_save_is_not_disturbed_by_another_one(tmp_path: Path) -> None:
    target = tmp_path / "weights.bin"
    with atomic_write(target) as slow:
        slow.write(b"slow")
        slow.flush()
        os.utime(slow.fileno(), (0, 0))
        with atomic_write(target) as quick:
            quick.write(b"quick")
        assert target.read_bytes() == b"quick"
    assert target.read_bytes() == b"slow"
    assert [p.name for p in tmp_path.iterdir()] == ["weights.bin"]
