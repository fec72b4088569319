# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import pickle
import random
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import ArgumentError, FileError, FileFormatError, IndexOutOfBoundsError, MXNetError
from mx_io import recordio

DATA = Path(__file__).parent / "data"
MAGIC = struct.pack("<I", 0xCED7230A)
TRUTH = json.loads((DATA / "records_truth.json").read_text())

# Payloads dense in whole and broken magics, the only bytes that mean something to the format.
payloads = st.lists(
    st.one_of(st.just(MAGIC), st.binary(max_size=9), st.sampled_from([MAGIC[:1], MAGIC[:3], MAGIC[1:]])),
    max_size=8,
).map(b"".join)


def write_all(path: Path, records: list[bytes]) -> None:
    with recordio.MXRecordIO(path, "w") as record:
        for payload in records:
            record.write(payload)


def read_all(path: Path) -> list[bytes]:
    with recordio.MXRecordIO(path, "r") as record:
        return list(iter(record.read, None))


def test_a_writer_that_is_dropped_is_closed(tmp_path: Path) -> None:
    names = tmp_path / "a.idx", tmp_path / "a.rec"
    writer = recordio.MXIndexedRecordIO(*names, "w")
    writer.write_idx(3, b"kept")
    del writer
    with recordio.MXIndexedRecordIO(*names, "r") as record:
        assert record.keys == [3] and record.read_idx(3) == b"kept"


def test_golden_records_read_as_they_were_written():
    assert read_all(DATA / "raw.rec") == [bytes.fromhex(text) for text in TRUTH["raw_hex"]]


def test_golden_index_leads_to_each_record():
    with recordio.MXIndexedRecordIO(DATA / "raw.idx", DATA / "raw.rec", "r") as record:
        assert record.keys == TRUTH["raw_keys"]
        expected = dict(zip(TRUTH["raw_keys"], map(bytes.fromhex, TRUTH["raw_hex"]), strict=True))
        for key in reversed(record.keys):
            assert record.read_idx(key) == expected[key]
        assert record.read_keys([27, 0, 27]) == [expected[27], expected[0], expected[27]]
        record.read_idx(3)
        assert record.read() == expected[6]
        record.seek(21)
        assert record.tell() == record.idx[21]
        assert record.read() == expected[21]


def test_writing_the_golden_records_gives_the_golden_files(tmp_path):
    with recordio.MXIndexedRecordIO(tmp_path / "raw.idx", tmp_path / "raw.rec", "w") as record:
        for key, text in zip(TRUTH["raw_keys"], TRUTH["raw_hex"], strict=True):
            record.write_idx(key, bytes.fromhex(text))
    for name in ("raw.rec", "raw.idx"):
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(records=st.lists(payloads, max_size=6), parts=st.integers(1, 5))
def test_round_trip_whole_batched_and_in_parts(tmp_path_factory, records, parts):
    path = tmp_path_factory.mktemp("trip") / "x.rec"
    write_all(path, records)
    assert read_all(path) == records
    with recordio.MXRecordIO(path, "r") as record:
        offsets = record.offsets()
        assert record.read_batch(offsets[::-1]) == records[::-1]
        shares = [record.offsets(i, parts) for i in range(parts)]
    assert [offset for share in shares for offset in share] == offsets


def test_byte_parts_follow_the_documented_rule(tmp_path):
    path = tmp_path / "seven.rec"
    write_all(path, [b"x" * 100] * 7)
    with recordio.MXRecordIO(path, "r") as record:
        assert [len(record.offsets(i, 3)) for i in range(3)] == [3, 2, 2]
        with pytest.raises(ValueError, match="part_index 3 of 3"):
            record.offsets(3, 3)


def test_records_larger_than_every_buffer(tmp_path):
    rng = random.Random(1)
    records = [rng.randbytes(size) + MAGIC + b"tail" for size in (3, 1 << 16, (1 << 20) + 1, 3 << 20)]
    write_all(tmp_path / "big.rec", records)
    assert read_all(tmp_path / "big.rec") == records


def test_a_record_too_long_for_the_format_is_refused(tmp_path):
    with recordio.MXRecordIO(tmp_path / "x.rec", "w") as record:
        with pytest.raises(ArgumentError, match="at most 536870911 bytes, got 536870912"):
            record.write(np.zeros(1 << 29, np.uint8).data)
        record.write(b"still usable")
    assert read_all(tmp_path / "x.rec") == [b"still usable"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b[:5], "at byte 0: expected a record head of 8 bytes, got 5 before the end"),
        (lambda b: b[:-1], r"at byte 24: expected 12 bytes of payload, got 11 before the end"),
        (lambda b: b"\0" + b[1:], "at byte 0: expected the record magic 0xced7230a, got 0xced72300"),
        (lambda b: b[:7] + b"\x80" + b[8:], "at byte 0: expected a part flag from 0 to 3, got 4"),
        (
            lambda b: b[:7] + b"\x60" + b[8:],
            r"at byte 0: expected the beginning of a record \(flag 0 or 1\), got flag 3",
        ),
        (lambda b: b[:7] + b"\x20" + b[8:], r"at byte 16: expected a following part .* got flag 0"),
    ],
)
def test_damage_is_named_with_file_byte_expected_and_got(tmp_path, damage, message):
    path = tmp_path / "hurt.rec"
    write_all(path, [b"12345", b"0123456789"])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FileFormatError, match=message) as raised:
        read_all(path)
    assert str(path) in str(raised.value)


def test_a_hostile_length_takes_no_memory(tmp_path):
    path = tmp_path / "bomb.rec"
    path.write_bytes(struct.pack("<II", 0xCED7230A, (1 << 29) - 1) + b"x" * 8)
    with pytest.raises(FileFormatError, match="expected 536870912 bytes of payload, got 8"):
        read_all(path)


def test_mutated_files_give_an_error_or_records_and_never_crash(tmp_path):
    rng = random.Random(7)
    original = (DATA / "raw.rec").read_bytes()
    path = tmp_path / "mutant.rec"
    outcomes = {"read": 0, "refused": 0}
    for _ in range(600):
        mutant = bytearray(original)
        for _ in range(rng.randint(1, 3)):
            position = rng.randrange(len(mutant))
            kind = rng.randrange(3)
            if kind == 0:
                mutant[position] = rng.randrange(256)
            elif kind == 1:
                del mutant[position:]
            else:
                mutant[position:position] = rng.randbytes(rng.randint(1, 4))
            mutant = mutant or bytearray(b"\0")
        path.write_bytes(mutant)
        try:
            records = read_all(path)
            assert sum(map(len, records)) <= len(mutant)
            for record in records:
                try:
                    recordio.unpack(record)
                except FileFormatError:
                    pass
            outcomes["read"] += 1
        except FileFormatError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 50


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: os.mkfifo(p)])
def test_what_is_no_file_gives_an_os_error(tmp_path, make):
    path = tmp_path / "odd.rec"
    make(path)
    with pytest.raises(OSError, match=r"odd\.rec"):
        recordio.MXRecordIO(path, "r")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_reported_at_close():
    record = recordio.MXRecordIO("/dev/full", "w")
    record.write(b"x" * 100)
    with pytest.raises(FileError, match="No space left"):
        record.close()
    record.close()


FULL_DISK = """
import resource, signal, sys
from mx_core.errors import FileError
from mx_io.recordio import MXIndexedRecordIO
limit, size = map(int, sys.argv[1:])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
record = MXIndexedRecordIO("a.idx", "a.rec", "w")
told = []
try:
    for key in range(3000):
        record.write_idx(key, (b"%6d" % key + bytes.fromhex("0a23d7ce") * 3).ljust(size, b"x"))
except FileError as error:
    told.append(str(error))
try:
    record.close()
except FileError as error:
    told.append(str(error))
record.close()
print(told[0])
"""
FULL_INDEX = """
import resource, signal
from mx_core.errors import FileError
from mx_io.recordio import MXIndexedRecordIO
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
record = MXIndexedRecordIO("a.idx", "a.rec", "w", str)
for key in range(300):
    record.write_idx(f"{key:0100}", b"")
try:
    record.close()
except FileError as error:
    print(error)
"""


@pytest.mark.parametrize(("limit", "size"), [(100_000, 1000), (1_500_000, 1001), (9_000, 20), (5_000, 6_000)])
def test_a_full_disk_keeps_the_whole_records_that_fit_and_their_entries(tmp_path, limit, size):
    command = [sys.executable, "-c", FULL_DISK, str(limit), str(size)]
    told = subprocess.run(
        command, cwd=tmp_path, check=True, timeout=60, capture_output=True, text=True
    ).stdout
    assert "a.rec: write; the file was cut back to its last whole record" in told
    assert f"which ends at byte {(tmp_path / 'a.rec').stat().st_size}: File too large" in told
    records = read_all(tmp_path / "a.rec")
    each = 8 + -(-size // 4) * 4  # one of fewer than 30 bytes is not longer than its text
    assert (tmp_path / "a.rec").stat().st_size > limit - each - 40
    with recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "r") as record:
        assert [record.read_idx(key) for key in record.keys] == records[: len(record.keys)]
        assert len(record.keys) == len(records) or (tmp_path / "a.idx").stat().st_size > limit - 12
    assert [int(each[:6]) for each in records] == list(range(len(records)))


def test_an_index_that_does_not_fit_ends_with_a_whole_line(tmp_path):
    command = [sys.executable, "-c", FULL_INDEX]
    told = subprocess.run(
        command, cwd=tmp_path, check=True, timeout=60, capture_output=True, text=True
    ).stdout
    assert "a.idx" in told and "File too large" in told
    index = recordio.read_index(tmp_path / "a.idx", str)
    assert 10_000 - 105 < (tmp_path / "a.idx").stat().st_size <= 10_000
    assert list(index.values()) == [8 * key for key in range(len(index))]
    assert read_all(tmp_path / "a.rec") == [b""] * 300


def test_wrong_use_is_explained(tmp_path):
    path = tmp_path / "x.rec"
    with pytest.raises(ArgumentError, match="expected 'r' or 'w', got 'a'"):
        recordio.MXRecordIO(path, "a")
    with recordio.MXRecordIO(path, "w") as record:
        with pytest.raises(MXNetError, match="open for reading, got one open with flag 'w'"):
            record.read()
        with pytest.raises(TypeError):
            record.write("text")
    with pytest.raises(MXNetError, match="got a closed one"):
        record.write(b"")
    with recordio.MXIndexedRecordIO(DATA / "raw.idx", DATA / "raw.rec", "r") as record:
        with pytest.raises(IndexOutOfBoundsError, match="expected one of 10 keys, got 1"):
            record.read_idx(1)


def test_a_bad_index_line_is_named(tmp_path):
    (tmp_path / "x.idx").write_text("0\t0\n1 8\n")
    with pytest.raises(FileFormatError, match=r"x\.idx: line 2: expected 'key<TAB>offset'"):
        recordio.read_index(tmp_path / "x.idx")


def test_an_index_of_another_file_is_noticed(tmp_path):
    (tmp_path / "x.idx").write_text("0\t4\n1\t99999\n")
    with recordio.MXIndexedRecordIO(tmp_path / "x.idx", DATA / "raw.rec", "r") as record:
        with pytest.raises(FileFormatError, match="at byte 4: expected the record magic"):
            record.read_idx(0)
        with pytest.raises(FileFormatError, match="at byte 99999: expected a record head"):
            record.read_idx(1)


def test_build_index_serves_a_file_without_one(tmp_path):
    assert recordio.build_index(DATA / "raw.rec", tmp_path / "new.idx") == 10
    with recordio.MXIndexedRecordIO(tmp_path / "new.idx", DATA / "raw.rec", "r") as record:
        assert [record.read_idx(i).hex() for i in range(10)] == TRUTH["raw_hex"]


def test_a_growing_file_can_be_followed(tmp_path):
    path = tmp_path / "log.rec"
    with recordio.MXRecordIO(path, "w") as writer, recordio.MXRecordIO(path, "r") as reader:
        for i in range(3):
            assert reader.read() is None
            writer.write(b"entry %d" % i)
            writer.flush()
            assert reader.read() == b"entry %d" % i


def test_pickled_readers_open_the_file_again():
    with recordio.MXIndexedRecordIO(DATA / "raw.idx", DATA / "raw.rec", "r") as record:
        with pickle.loads(pickle.dumps(record)) as copy:
            assert copy.read_idx(9) == record.read_idx(9)


@pytest.mark.timeout(60)
def test_threads_share_a_reader_and_a_writer(tmp_path):
    path = tmp_path / "shared.rec"
    with recordio.MXRecordIO(path, "w") as record:

        def write(base: int) -> None:
            for i in range(200):
                record.write(b"%d" % (base + i))

        run_together([lambda base=base: write(base) for base in (0, 1000, 2000, 3000)])
    got: list[bytes] = []
    with recordio.MXRecordIO(path, "r") as record:
        run_together([lambda: got.extend(iter(record.read, None))] * 4)
    assert sorted(map(int, got)) == sorted(base + i for base in (0, 1000, 2000, 3000) for i in range(200))


def run_together(functions) -> None:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


FORK = """
import os, sys
from mx_io import recordio
path = sys.argv[1]
writer = recordio.MXRecordIO(path, "w")
writer.write(b"parent")
if os.fork() == 0:
    try:
        writer.write(b"child")
    except RuntimeError as error:
        sys.exit(7 if "multiple processes" in str(error) else 1)
    sys.exit(2)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
writer.write(b"again")
writer.close()
reader = recordio.MXRecordIO(path, "r")
assert reader.read() == b"parent"
if os.fork() == 0:
    os._exit(0 if reader.read() == b"parent" and reader.read() == b"again" and reader.read() is None else 3)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
assert reader.read() == b"again" and reader.read() is None
"""


@pytest.mark.timeout(30)
def test_a_forked_child_reads_for_itself_and_does_not_write(tmp_path):
    subprocess.run([sys.executable, "-c", FORK, str(tmp_path / "f.rec")], check=True, timeout=25)


def test_recordio_alone_imports_no_arrays():
    code = "import sys, mx_io.recordio; assert not any(m in sys.modules for m in ('mx_ndarray', 'PIL', 'simplejpeg'))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=25)


KILLED_WRITER = """
import os, random, sys
from mx_io import _core
from mx_io.recordio import MXIndexedRecordIO
class Writer(_core.RecordWriter):
    def __init__(self, path):
        if sys.argv[1] == "open":
            os._exit(9)
        super().__init__(path)
_core.RecordWriter = Writer
record = MXIndexedRecordIO("a.idx", "a.rec", "w")
for key in range(int(sys.argv[1])):
    record.write_idx(key, b"%d" % key * 60)
os._exit(9)
"""


@pytest.mark.parametrize("count", ["open", "0", "10", "1500", "20000"])
def test_a_killed_writer_leaves_an_index_of_records_that_are_there(tmp_path, count):
    with recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "w") as record:
        for key in range(100, 110):
            record.write_idx(key, b"old")
    subprocess.run([sys.executable, "-c", KILLED_WRITER, count], cwd=tmp_path, check=False, timeout=60)
    with recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "r") as record:
        for key in record.keys:
            assert record.read_idx(key) == b"%d" % key * 60
    if count == "20000":
        assert len(record.keys) > 10_000


def test_records_that_cannot_be_written_leave_the_old_index(tmp_path):
    (tmp_path / "a.idx").write_text("1\t0\n")
    (tmp_path / "a.rec").mkdir()
    with pytest.raises(OSError, match="a.rec"):
        recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "w")
    assert (tmp_path / "a.idx").read_text() == "1\t0\n"


@pytest.mark.parametrize("wrong", ["text", 3, None])
def test_what_is_no_buffer_is_refused_with_its_value(tmp_path, wrong):
    with recordio.MXRecordIO(str(tmp_path / "a.rec"), "w") as record:
        with pytest.raises(TypeError, match=f"expected bytes or another buffer, got {wrong!r}"):
            record.write(wrong)
