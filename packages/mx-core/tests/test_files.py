# SPDX-License-Identifier: Apache-2.0
import os
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
