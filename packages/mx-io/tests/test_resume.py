# SPDX-License-Identifier: Apache-2.0
"""`im2rec` goes on where a process before was ended, wherever that was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mx_core.errors import ArgumentError
from mx_io import codecs
from mx_io.im2rec import ListEntry, pack, resume, write_list
from mx_io.im2rec.command import im2rec
from mx_io.rec.command import rec2idx
from mx_io.recordio import read_index

pytestmark = pytest.mark.timeout(60)

COUNT = 30


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("images")
    draw = np.random.default_rng(1)
    for i in range(COUNT):
        image = draw.integers(0, 256, (4 + i % 5, 6, 3), np.uint8)
        (root / f"{i}.png").write_bytes(codecs.encode(image, ".png") if i % 7 != 3 else b"no image")
    write_list(root / "all.lst", entries())
    pack(root / "all.lst", root, root / "expected", on_error="skip", encoding=".png", quality=1)
    return root


def entries() -> list[ListEntry]:
    return [ListEntry(3 * i, (float(i),), f"{i}.png") for i in range(COUNT)]


class Ended(Exception):
    pass


def begun(images: Path, prefix: Path, count: int, **more) -> None:
    """Packs until so many images are done."""
    left = [count]

    def progress(_: int) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise Ended

    with pytest.raises(Ended):
        packed(images, prefix, progress=progress, **more)


def packed(images: Path, prefix: Path, **more):
    given = {"on_error": "skip", "encoding": ".png", "quality": 1, "resume": True} | more
    return pack(images / "all.lst", images, prefix, **given)


def is_right(images: Path, prefix: Path) -> bool:
    return all(
        prefix.with_suffix(suffix).read_bytes() == (images / f"expected{suffix}").read_bytes()
        for suffix in (".rec", ".idx")
    ) and sorted(path.name for path in prefix.parent.iterdir()) == ["a.idx", "a.rec"]


@pytest.mark.parametrize("threads", [1, 3])
def test_it_goes_on_with_what_is_done(images, tmp_path, threads, monkeypatch):
    prefix = tmp_path / "a"
    begun(images, prefix, 11, num_thread=threads)
    assert os.listdir(tmp_path) == ["a.rec.unfinished"]
    begun(images, prefix, 20)
    read = []
    whole = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or whole(path))
    done = []
    report = packed(images, prefix, progress=done.append)
    assert len(done) == COUNT and "10.png" not in read and "29.png" in read
    monkeypatch.undo()
    assert (report.written, [path for path, _ in report.skipped]) == (
        26,
        ["3.png", "10.png", "17.png", "24.png"],
    )
    assert "expected an image" in str(report.skipped[0][1]) and is_right(images, prefix)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, COUNT), st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_any_state_of_the_disk_after_a_crash_is_taken_over(images, tmp_path, count, records, journal, zeros):
    folder = tmp_path / "x"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    prefix = folder / "a"
    begun(images, prefix, count)
    for name, share in (("records.rec", records), ("journal", journal)):
        path = folder / "a.rec.unfinished" / name
        whole = path.read_bytes()
        kept = whole[: round(share * len(whole))]
        path.write_bytes(whole + bytes(64) if zeros and name == "records.rec" else kept)
    packed(images, prefix)
    assert is_right(images, prefix)


def test_records_of_another_list_or_other_options_are_kept_and_refused(images, tmp_path):
    prefix = tmp_path / "a"
    begun(images, prefix, 5)
    before = (tmp_path / "a.rec.unfinished" / "records.rec").read_bytes()
    with pytest.raises(
        ArgumentError, match=r"a\.rec\.unfinished: expected unfinished records of this list and"
    ):
        packed(images, prefix, resize=3)
    with pytest.raises(ArgumentError, match="delete the folder to begin anew"):
        pack(entries()[1:], images, prefix, resume=True, on_error="skip")
    assert (tmp_path / "a.rec.unfinished" / "records.rec").read_bytes() == before
    packed(images, prefix)
    assert is_right(images, prefix)


def test_two_processes_do_not_write_the_same_records(images, tmp_path):
    first = resume.Unfinished(tmp_path / "a.rec.unfinished", "x")
    with pytest.raises(ArgumentError, match="another process is writing to it"):
        resume.Unfinished(tmp_path / "a.rec.unfinished", "x")
    first.close()
    first.close()
    resume.Unfinished(tmp_path / "a.rec.unfinished", "x").close()


KILLED = """
import sys, time
from mx_io.im2rec import pack, resume
resume._STEP = 3
pack(sys.argv[1] + "/all.lst", sys.argv[1], sys.argv[2], on_error="skip", encoding=".png", quality=1, resume=True,
     progress=lambda _: time.sleep(0.02))
"""


def test_a_killed_process_costs_a_few_images(images, tmp_path):
    prefix = tmp_path / "a"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(images), str(prefix)])
    journal = tmp_path / "a.rec.unfinished" / "journal"
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline and (not journal.exists() or journal.read_bytes().count(b"\n") < 7):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    left = resume.Unfinished(journal.parent, journal.read_bytes().split(b"\n")[0].decode())
    assert len(left.offsets) >= 6
    left.close()
    packed(images, prefix)
    assert is_right(images, prefix)


def test_the_commands(images, tmp_path):
    shutil.copy(images / "all.lst", tmp_path / "a.lst")
    begun(images, tmp_path / "a", 9)
    run = CliRunner().invoke
    told = run(im2rec, [str(tmp_path / "a"), str(images), "--encoding", ".png", "--quality", "1", "--resume"])
    assert told.exit_code == 0 and "skipped 3.png" in told.output, told.output
    assert (tmp_path / "a.rec").read_bytes() == (images / "expected.rec").read_bytes()
    told = run(rec2idx, [str(tmp_path / "a.rec"), str(tmp_path / "again.idx")])
    assert told.exit_code == 0 and "26 records" in told.output
    index = read_index(tmp_path / "again.idx")
    assert list(index) == list(range(26)) and list(index.values()) == list(
        read_index(tmp_path / "a.idx").values()
    )
