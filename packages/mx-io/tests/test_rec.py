# SPDX-License-Identifier: Apache-2.0
"""Parts and damage of record files, and the command `mx rec`."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import ArgumentError, FileFormatError
from mx_io import codecs
from mx_io.rec import check, repair, statistics
from mx_io.rec.command import rec
from mx_io.recordio import IRHeader, MXIndexedRecordIO, MXRecordIO, build_index, pack, pack_img, read_index

MAGIC = struct.pack("<I", 0xCED7230A)
#: Pieces of payloads: the magic word at any place, with what may pass for a length behind it.
PIECES = st.one_of(
    st.just(MAGIC),
    st.just(MAGIC + struct.pack("<I", 5)),
    st.just(MAGIC + struct.pack("<I", 1 << 29 | 4)),
    st.binary(max_size=9),
)
PAYLOADS = st.lists(st.lists(PIECES, max_size=6).map(b"".join), max_size=12)


def written(payloads: list[bytes]) -> str:
    path = tempfile.mkstemp(suffix=".rec", dir="/dev/shm")[1]
    with MXRecordIO(path, "w") as record:
        for payload in payloads:
            record.write(payload)
    return path


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(PAYLOADS, st.integers(1, 9))
def test_every_record_is_in_exactly_one_part(payloads, parts):
    path = Path(written(payloads))
    try:
        with MXRecordIO(path, "r") as record:
            found = [record.offsets(part, parts) for part in range(parts)]
            assert [offset for part in found for offset in part] == record.offsets()
            assert [payload for part in found for payload in record.read_batch(part)] == payloads
            assert [record.scan(part, parts) for part in range(parts)] == [(part, []) for part in found]
    finally:
        path.unlink()


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(PAYLOADS.filter(bool), st.data())
def test_every_record_that_is_untouched_is_found(payloads, data):
    path = Path(written(payloads))
    try:
        with MXRecordIO(path, "r") as record:
            offsets = record.offsets()
        content = bytearray(path.read_bytes())
        ends = [*offsets[1:], len(content)]
        touched = set()
        for _ in range(data.draw(st.integers(0, 4))):
            place = data.draw(st.integers(0, len(content) - 1))
            value = data.draw(st.integers(0, 255))
            if content[place] != value:
                content[place] = value
                touched |= {
                    i
                    for i, (begin, end) in enumerate(zip(offsets, ends, strict=True))
                    if begin <= place < end
                }
        cut = data.draw(st.integers(0, min(20, len(content))))
        if cut:
            touched |= {i for i, end in enumerate(ends) if end > len(content) - cut}
            del content[len(content) - cut :]
        path.write_bytes(content)
        with MXRecordIO(path, "r") as record:
            found, damages = record.scan()
            for i, payload in enumerate(payloads):
                if i not in touched:
                    assert offsets[i] in found and record.read_batch([offsets[i]]) == [payload]
            assert len(record.read_batch(found)) == len(found)
        places = sorted(
            [*((begin, end) for begin, end, _ in damages), *((offset, offset + 1) for offset in found)]
        )
        assert all(a[1] <= b[0] for a, b in zip(places, places[1:], strict=False))
        assert all(0 <= begin < end <= len(content) and str(path) in why for begin, end, why in damages)
    finally:
        path.unlink()


@pytest.fixture
def torn(tmp_path) -> Path:
    """Ten images with keys in tens; the third has no magic, the fifth a length beyond the next, the seventh no image, and
    the last is cut short."""
    path = tmp_path / "a.rec"
    with MXIndexedRecordIO(tmp_path / "a.idx", path, "w") as record:
        for i in range(10):
            pixels = np.full((8, 8, 3), i, np.uint8)
            record.write_idx(10 * i, pack_img(IRHeader(0, float(i % 3), i, 0), pixels, 1, ".png"))
    offsets = list(read_index(tmp_path / "a.idx").values())
    content = bytearray(path.read_bytes())
    content[offsets[2]] ^= 1
    content[offsets[4] + 4] += 120
    content[offsets[6] + 8 + 24 + 1] ^= 255
    path.write_bytes(content[:-3])
    return path


class Signalled(Exception):
    pass


def test_a_signal_ends_a_scan(tmp_path):
    path = tmp_path / "zeros.rec"
    with open(path, "wb") as file:
        file.truncate(2**37)  # of which reading takes many seconds

    def raise_it(number, frame):
        raise Signalled

    before = signal.signal(signal.SIGUSR1, raise_it)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        with MXRecordIO(path, "r") as record:
            begin = time.monotonic()
            timer.start()
            with pytest.raises(Signalled):
                record.scan()
            assert time.monotonic() - begin < 5
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def run(*words) -> tuple[int, str]:
    result = CliRunner().invoke(rec, [str(word) for word in words])
    return result.exit_code, result.output


def test_check_tells_what_is_damaged(torn):
    found = check(torn, torn.with_suffix(".idx"), images=True)
    offsets = list(read_index(torn.with_suffix(".idx")).values())
    assert [begin for begin, _, _ in found.damages] == [offsets[i] for i in (2, 4, 9)]
    assert [offset for offset, _ in found.unreadable] == [offsets[6]]
    assert [key for key, _ in found.lost] == ["20", "40", "90"] and found.unlisted == 0 and not found.intact
    status, said = run("check", torn, "--images")
    assert status == 1 and "7 intact records, 3 damaged places" in said
    assert "another one begins before its end" in said and "index: key 90: no intact record at byte" in said
    assert f"record at byte {offsets[6]}: [decode] expected an image" in said
    assert (
        "not decoded" not in said
        and "; images were not decoded, which --images does\n" in run("check", torn)[1]
    )


def test_who_stops_reading_gets_no_error(tmp_path):
    path = tmp_path / "many.rec"
    with MXRecordIO(path, "w") as record:
        for i in range(2000):
            record.write(pack(IRHeader(0, float(i), i, 0), b"x"))
    command = [sys.executable, "-m", "mx_core.cli", "rec", "cat", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert json.loads(process.stdout.readline())["id"] == 0
        process.stdout.close()
        assert process.stderr.read() == ""


def test_repair_keeps_what_is_intact_with_its_keys(torn, tmp_path):
    status, said = run("repair", torn, tmp_path / "b.rec", "--images")
    assert status == 0 and "b.rec: 6 records" in said
    with MXIndexedRecordIO(tmp_path / "b.idx", tmp_path / "b.rec", "r") as record:
        assert record.keys == [0, 10, 30, 50, 70, 80]
        assert record.read_idx(50)[24:28] == b"\x89PNG"
    assert run("check", tmp_path / "b.rec", "--images")[0] == 0
    (tmp_path / "a.idx").unlink()
    repair(torn, tmp_path / "c.rec", tmp_path / "c.idx")
    assert list(read_index(tmp_path / "c.idx")) == list(range(7))
    with pytest.raises(ArgumentError, match="expected another file than the one that is repaired"):
        repair(torn, torn, tmp_path / "d.idx")


def test_repair_gives_new_keys_to_records_that_the_index_lacks(tmp_path):
    with MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "w") as record:
        for key in (1, 5, 0):
            record.write_idx(key, str(key).encode())
    index = tmp_path / "a.idx"
    index.write_text(
        "".join(line + "\n" for line in index.read_text().splitlines() if not line.startswith("5"))
    )
    repair(tmp_path / "a.rec", tmp_path / "b.rec", tmp_path / "b.idx", index)
    assert list(read_index(tmp_path / "b.idx")) == [1, 2, 0]


def test_repair_leaves_the_damaged_file_and_its_index(torn, tmp_path):
    before = {name: (tmp_path / name).read_bytes() for name in ("a.rec", "a.idx")}
    (tmp_path / "keys.idx").write_bytes(before["a.idx"])
    for words, message in (
        (["a.fixed"], "a.idx: expected a name that is free, got the index of"),
        (
            ["a.fixed", "--idx", tmp_path / "keys.idx"],
            "a.idx: expected a name that is free, got the index of",
        ),
        (["keys.rec", "--idx", tmp_path / "keys.idx"], "keys.idx: expected a name that is free"),
        (["a.idx"], "a.idx: expected a name that is free"),
        (["a.rec"], "a.rec: expected another file than the one that is repaired"),
        (["b.idx"], "b.idx: expected a name that its index does not have, too"),
    ):
        status, said = run("repair", torn, tmp_path / words[0], *words[1:])
        assert status == 1 and message in said, said
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.idx", "a.rec", "keys.idx"]
    (tmp_path / "a.idx").unlink()
    assert run("repair", torn, tmp_path / "a.fixed")[0] == 0 and (tmp_path / "a.idx").exists()


def test_damaged_lines_of_an_index_are_told_and_left_out(torn, tmp_path):
    index = torn.with_suffix(".idx")
    lines = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(b"".join([*lines[:3], b"\xff\n", *lines[4:9], b"90"]))
    status, said = run("check", torn)
    assert status == 1 and "7 intact records" in said and "index: 1 records are not in it" in said
    assert f"index: [RecordIO] {index}: line 4: expected 'key<TAB>offset', got b'\\xff\\n'" in said
    assert "line 10: expected 'key<TAB>offset', got b'90'" in said
    status, said = run("repair", torn, tmp_path / "b.rec")
    assert status == 0 and "line 4: expected" in said
    assert list(read_index(tmp_path / "b.idx")) == [0, 10, 1, 50, 60, 70, 80]


def test_cat_prints_records(torn):
    status, said = run("cat", torn)
    lines = [json.loads(line) for line in said.splitlines()]
    assert status == 0 and [line["id"] for line in lines] == [0, 1, 3, 5, 6, 7, 8]
    assert lines[1]["label"] == 1.0 and [line["format"] for line in lines].count("png") == 6
    assert [json.loads(line)["id"] for line in run("cat", torn, 80, 10)[1].splitlines()] == [8, 1]
    result = CliRunner().invoke(rec, ["cat", str(torn), "30", "--payload"])
    assert result.exit_code == 0, result.output
    assert (codecs.decode(result.stdout_bytes) == 3).all()
    assert "expected one of 10 keys, got '3'" in run("cat", torn, 3)[1]
    assert "--payload: expected one key, got 7 records" in run("cat", torn, "--payload")[1]


def test_stat_counts(torn, tmp_path):
    found = statistics(torn)
    assert found.records == 7 and found.formats == {"png": 6, "none": 1} and found.label_widths == {1: 7}
    assert found.labels == {0.0: 3, 1.0: 2, 2.0: 2} and found.smallest <= found.largest <= found.payload_bytes
    status, said = run("stat", torn)
    assert status == 0 and "records  7" in said and "png 6, none 1" in said and "  2: 2" in said
    path = tmp_path / "plain.rec"
    with MXRecordIO(path, "w") as record:
        record.write(b"short")
        record.write(pack(IRHeader(0, np.arange(3), 1, 0), b"x"))
    assert statistics(path).formats == {"none": 2} and statistics(path).label_widths == {3: 1}
    assert json.loads(run("cat", path)[1].splitlines()[0]) == {"offset": 0, "bytes": 5}
    empty = tmp_path / "empty.rec"
    empty.write_bytes(b"")
    assert "records  0" in run("stat", empty)[1]


def test_index_is_written(torn, tmp_path):
    status, said = run("index", torn)
    assert status == 1 and "the record magic" in said
    good = tmp_path / "good.rec"
    with MXRecordIO(good, "w") as record:
        record.write(b"one")
        record.write(b"two")
    status, said = run("index", good)
    assert status == 0 and said == f"{tmp_path / 'good.idx'}: 2 records\n"
    assert build_index(good, tmp_path / "other.idx") == 2
    assert read_index(tmp_path / "good.idx") == read_index(tmp_path / "other.idx") == {0: 0, 1: 12}
    (tmp_path / "good.idx").write_text("x\n")
    status, said = run("check", good)
    assert status == 1 and "expected 'key<TAB>offset'" in said
    with pytest.raises(FileFormatError, match="line 1: expected 'key<TAB>offset'"):
        read_index(tmp_path / "good.idx")
