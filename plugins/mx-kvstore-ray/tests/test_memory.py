# SPDX-License-Identifier: Apache-2.0
"""Memory that one process leaves for others: what they read, and when they find none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

from mx_core.errors import FileFormatError
from mx_kvstore_ray.memory import Memory, Others

OTHER = """
import json, sys
from mx_kvstore_ray.memory import Memory
memory = Memory()
regions = [memory.take(size) for size in (100, 3, 20_000_000)]
for number, region in enumerate(regions, 1):
    region.data[:] = number
print(json.dumps([region.where for region in regions]), flush=True)
sys.stdin.readline()
regions[0].data[:] = 9
print(flush=True)
sys.stdin.readline()
"""


def test_another_process_is_read_until_it_ends() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        places = json.loads(process.stdout.readline())
        others = Others()
        for number, (place, size) in enumerate(zip(places, (100, 3, 20_000_000), strict=True), 1):
            found = others.at(place, size)
            assert found is not None and found.shape == (size,) and (found == number).all()
            assert not found.flags.writeable
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        first = others.at(places[0], 100)
        assert first is not None and (first == 9).all(), "what is written later is seen"
    assert Others().at(places[0], 100) is None, "the process has ended"
    assert (first == 9).all(), "what was opened before stays"


def test_a_file_of_another_mark_is_not_taken() -> None:
    region = Memory().take(10)
    assert region is not None
    process, file, mark, size, begin = region.where
    assert process == os.getpid() and Others().at(region.where, 10) is not None
    assert Others().at([process, file, mark ^ 1, size, begin], 10) is None
    assert Others().at([process, file, mark, 1 << 40, begin], 10) is None
    assert Others().at([process, 1 << 20, mark, size, begin], 10) is None


def test_places_do_not_overlap() -> None:
    memory, draw = Memory(), np.random.default_rng(5)
    regions = [memory.take(int(size)) for size in draw.integers(0, 3_000_000, 40)]
    for number, region in enumerate(regions):
        assert region is not None and region.data.ctypes.data % 64 == 0
        region.data[:] = number
    assert all((region.data == number).all() for number, region in enumerate(regions) if region is not None)


def test_the_next_process_finds_what_lies_in_a_folder(tmp_path: Path) -> None:
    first = Memory(tmp_path)
    regions = [first.take(size) for size in (100, 0, 20_000_000, 7)]
    for number, region in enumerate(regions, 1):
        assert region is not None
        region.data[:] = number
    assert len(list(tmp_path.iterdir())) == 3
    kept = [(region.kept, region.data.nbytes) for region in regions if region is not None]
    first.close()
    (tmp_path / "values-9.bin").write_bytes(b"of nobody")
    second = Memory(tmp_path)
    for number, (place, size) in enumerate(kept, 1):
        found = second.again(place, size)
        assert found.data.shape == (size,) and (found.data == number).all()
        assert Others().at(found.where, size) is not None
    second.tidy()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"values-{n}.bin" for n in (1, 2, 3)]
    more = second.take(50)
    assert more is not None and more.kept == [10, 0], "it lies in no file of the process before"
    second.close()


def test_a_file_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    region = memory.take(1000)
    assert region is not None
    with pytest.raises(FileFormatError, match=r"values-1\.bin"):
        memory.again([1, 16 << 20], 1)
    memory.close()
    os.truncate(tmp_path / "values-1.bin", 500)
    for number in (1, 2):
        with pytest.raises(FileFormatError, match=rf"values-{number}\.bin"):
            Memory(tmp_path).again([number, 0], 1000)


def test_without_room_there_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*what: int) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "posix_fallocate", full)
    for memory in (Memory(), Memory(tmp_path)):
        assert memory.take(1000) is None
    assert not list(tmp_path.iterdir())
