# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import plugins
from mx_core.errors import ArgumentError, FileFormatError
from mx_core.plugins import Entry, Registry
from mx_core.plugins.registries import Provenance
from mx_core.plugins.specs import CodecSpec
from mx_io import codecs, recordio
from mx_io.im2rec import ListEntry, make_list, pack, read_list, write_list
from mx_io.im2rec.command import im2rec
from mx_io.im2rec.listing import find_images
from mx_io.recordio import MXIndexedRecordIO, unpack


@pytest.fixture
def images(tmp_path) -> Path:
    root = tmp_path / "images"
    rng = np.random.default_rng(5)
    for number in range(12):
        folder = root / f"class{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        extension = ".png" if number % 2 else ".jpg"
        size = (20 + number, 30, 3)
        (folder / f"{number:02}{extension}").write_bytes(
            codecs.encode(rng.integers(0, 256, size, np.uint8), extension, 9)
        )
    (root / "notes.txt").write_text("no image")
    return root


def records(path: Path) -> list[tuple[recordio.IRHeader, bytes]]:
    with recordio.MXRecordIO(path, "r") as record:
        return [recordio.unpack(data) for data in iter(record.read, None)]


def test_folders_become_classes(images, tmp_path):
    (path,) = make_list(tmp_path / "all", images, recursive=True, shuffle=False)
    entries = read_list(path)
    assert [entry.number for entry in entries] == list(range(12))
    assert {entry.path.split("/")[0]: entry.labels for entry in entries} == {
        f"class{i}": (float(i),) for i in range(3)
    }


def test_only_the_folder_itself_without_recursive(images, tmp_path):
    (path,) = make_list(tmp_path / "one", images / "class1", shuffle=False)
    assert [entry.labels for entry in read_list(path)] == [(0.0,)] * 4
    with pytest.raises(ArgumentError, match="expected files ending with"):
        make_list(tmp_path / "none", images)


def test_ratios_and_chunks_divide_everything_once(images, tmp_path):
    paths = make_list(tmp_path / "part", images, recursive=True, chunks=2, train_ratio=0.5, test_ratio=0.25)
    assert [p.name for p in paths] == [
        f"part_{c}_{kind}.lst" for c in (0, 1) for kind in ("test", "val", "train")
    ]
    entries = [entry for path in paths for entry in read_list(path)]
    assert sorted(entry.number for entry in entries) == list(range(12))
    sizes = {path.name: len(read_list(path)) for path in paths}
    assert sizes["part_0_train.lst"] == 3 and sizes["part_0_test.lst"] == 1 and sizes["part_0_val.lst"] == 2


def test_shuffling_is_the_same_every_time(images, tmp_path):
    first, second = (make_list(tmp_path / name, images, recursive=True)[0].read_text() for name in ("a", "b"))
    ordered = make_list(tmp_path / "c", images, recursive=True, shuffle=False)[0].read_text()
    assert first == second != ordered


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**40),
            st.lists(st.integers(-999, 999).map(lambda n: n / 8), min_size=1, max_size=4).map(tuple),
            st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=12),
        )
    )
)
def test_list_files_round_trip(tmp_path_factory, rows):
    entries = [ListEntry(*row) for row in rows]
    path = write_list(tmp_path_factory.mktemp("lists") / "x.lst", entries)
    assert read_list(path) == entries


@pytest.mark.parametrize("line", ["0\tpath.png", "x\t0\tpath.png", "0\tzero\tpath.png"])
def test_a_bad_line_is_named(tmp_path, line):
    (tmp_path / "bad.lst").write_text(f"0\t0\tok.png\n{line}\n")
    with pytest.raises(FileFormatError, match=r"bad\.lst: line 2: expected 'index"):
        read_list(tmp_path / "bad.lst")


@pytest.mark.parametrize("threads", [1, 3])
def test_records_keep_the_order_of_the_list(images, tmp_path, threads):
    (lst,) = make_list(tmp_path / "all", images, recursive=True)
    done: list[int] = []
    report = pack(lst, images, num_thread=threads, encoding=".png", quality=1, progress=done.append)
    entries = read_list(lst)
    assert (report.written, report.skipped, sum(done)) == (12, [], 12)
    found = records(report.record)
    assert [(h.id, h.label) for h, _ in found] == [(e.number, e.labels[0]) for e in entries]
    for entry, (_, payload) in zip(entries, found, strict=True):
        assert np.array_equal(codecs.decode(payload), codecs.decode((images / entry.path).read_bytes()))
    with recordio.MXIndexedRecordIO(report.index, report.record, "r") as record:
        assert record.keys == [entry.number for entry in entries]


def test_pass_through_keeps_the_files(images, tmp_path):
    (lst,) = make_list(tmp_path / "all", images, recursive=True)
    report = pack(lst, images, pass_through=True)
    for entry, (_, payload) in zip(read_list(lst), records(report.record), strict=True):
        assert payload == (images / entry.path).read_bytes()


def test_size_colour_and_labels_are_as_asked(images, tmp_path):
    entries = [ListEntry(7, (1.0, 2.0, 3.0), "class0/00.jpg")]
    report = pack(entries, images, tmp_path / "x", resize=16, center_crop=True, color=0, pack_label=True)
    ((header, payload),) = records(report.record)
    assert codecs.decode(payload, -1).shape == (16, 16, 1)
    assert header.label.tolist() == [1.0, 2.0, 3.0]
    report = pack(entries, images, tmp_path / "y", resize=40)
    ((header, payload),) = records(report.record)
    assert codecs.decode(payload).shape == (40, 60, 3)
    assert header.label == 1.0, "without pack_label the first label is all"


def test_a_bad_image_is_named_and_leaves_nothing_behind(images, tmp_path):
    (lst,) = make_list(tmp_path / "all", images, recursive=True)
    (images / "class1" / "01.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    with pytest.raises(FileFormatError, match=r"class1/01\.png: .*png"):
        pack(lst, images, num_thread=2)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["all.lst"]
    report = pack(lst, images, on_error="skip")
    assert report.written == 11 and [path for path, _ in report.skipped] == ["class1/01.png"]


def test_the_command_lists_and_packs(images, tmp_path):
    prefix = str(tmp_path / "set")
    run = CliRunner().invoke
    listed = run(im2rec, [prefix, str(images), "--list", "--recursive", "--train-ratio", "0.75"])
    assert listed.exit_code == 0, listed.output
    assert {"set_train.lst: 9 images", "set_val.lst: 3 images"} <= {
        Path(x).name for x in listed.output.splitlines()
    }
    (images / "class2" / "02.jpg").write_bytes(b"damaged")
    packed = run(
        im2rec,
        [prefix, str(images), "--num-thread", "2", "--resize", "8", "--encoding", ".png", "--quality", "9"],
    )
    assert packed.exit_code == 0, packed.output
    assert "skipped class2/02.jpg" in packed.output
    assert len(records(tmp_path / "set_train.rec")) + len(records(tmp_path / "set_val.rec")) == 11
    failed = run(im2rec, [prefix, str(images), "--on-error", "fail"])
    assert failed.exit_code == 1 and "class2/02.jpg" in failed.output
    nothing = run(im2rec, [str(tmp_path / "absent"), str(images)])
    assert nothing.exit_code == 1 and "expected list files" in nothing.output


def test_a_prepared_link_is_not_followed_and_nothing_is_left(images, tmp_path):
    (lst,) = make_list(tmp_path / "all", images, recursive=True)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f"all.rec.{os.getpid()}.tmp").symlink_to(victim)
    pack(lst, images)
    assert victim.read_text() == "precious" and not (tmp_path / "all.rec").is_symlink()
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".partial")] == []


def test_links_to_folders_are_followed_but_not_in_circles(images, tmp_path):
    (images / "class1" / "up").symlink_to("..")
    (images / "linked").symlink_to("class1")
    entries = find_images(images, recursive=True)
    assert len({entry.path for entry in entries}) == len(entries)
    assert any(entry.path.startswith("linked/") for entry in entries)
    assert not any("/up/" in entry.path for entry in entries)


KILLED = """
import os, random, sys, threading, time
from mx_io.im2rec import pack
from mx_io.im2rec.listing import ListEntry
first, delay = int(sys.argv[1]), float(sys.argv[2])
def end():
    time.sleep(delay)
    os.kill(os.getpid(), 9)
entries = [ListEntry(first + k, (0.0,), "a.jpg") for k in range(20)]
pack(entries[:1], ".", "warm", pass_through=True)
threading.Thread(target=end, daemon=True).start()
while True:
    pack(entries, ".", "out", pass_through=True)
    entries = [entry._replace(number=entry.number + 20) for entry in entries]
"""


@pytest.mark.slow
def test_killed_runs_never_leave_an_index_of_other_records(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"x" * 999)
    for run in range(60):
        command = [sys.executable, "-c", KILLED, str(run * 100_000), f"{0.001 * run}"]
        subprocess.run(command, cwd=tmp_path, check=False, timeout=60)
        if not (tmp_path / "out.idx").exists():
            continue
        with MXIndexedRecordIO(tmp_path / "out.idx", tmp_path / "out.rec", "r") as record:
            assert len(record.keys) == 20
            assert [unpack(record.read_idx(key))[0].id for key in record.keys] == record.keys
    pack([ListEntry(0, (0.0,), "a.jpg")], tmp_path, tmp_path / "out", pass_through=True)
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left == ["a.jpg", "out.idx", "out.rec", "warm.idx", "warm.rec"]


def test_formats_of_plug_ins_are_listed_and_packed(tmp_path, monkeypatch):
    """A codec that another distribution registers: raw pixels behind a word."""

    def decode(data, color):
        height, width = data[5], data[6]
        return np.frombuffer(bytes(data[7:]), np.uint8).reshape(height, width, 3).copy()

    def encode(image, quality):
        return b"acme!" + bytes(image.shape[:2]) + image.tobytes()

    spec = CodecSpec("acme", (".acme",), lambda head: head.startswith(b"acme!"), decode, encode, 100)
    entries = [*plugins.registry("image_codecs").items()]
    registry = Registry("image_codecs")
    for entry in [
        Entry("image_codecs", "acme", spec, Provenance("acme", "acme-images", "1.0"), "a.py:1"),
        *entries,
    ]:
        registry.commit(entry)
    monkeypatch.setattr(codecs.plugins, "registry", lambda kind: registry)
    monkeypatch.setattr(codecs, "codecs", lambda: tuple(entry.value for entry in registry.in_order()))
    (tmp_path / "photos").mkdir()
    for i in range(3):
        (tmp_path / "photos" / f"{i}.acme").write_bytes(encode(np.full((2, 3, 3), i, np.uint8), 0))
    (tmp_path / "photos" / "x.bmp").write_bytes(b"not listed")
    run = CliRunner().invoke
    listed = run(im2rec, [str(tmp_path / "set"), str(tmp_path / "photos"), "--list", "--no-shuffle"])
    assert listed.exit_code == 0 and "set.lst: 3 images" in listed.output
    packed = run(im2rec, [str(tmp_path / "set"), str(tmp_path / "photos"), "--encoding", ".acme"])
    assert packed.exit_code == 0, packed.output
    payloads = [bytes(payload) for _, payload in records(tmp_path / "set.rec")]
    assert payloads == [encode(np.full((2, 3, 3), i, np.uint8), 0) for i in range(3)]
    refused = run(im2rec, [str(tmp_path / "set"), str(tmp_path / "photos"), "--encoding", ".webm"])
    assert refused.exit_code == 1 and "--encoding: expected one of .acme, .bmp, .jpe" in refused.output
    with pytest.raises(
        ArgumentError, match=r"expected files ending with \.jpeg, \.jpg, \.png, \.acme, got none; recursive"
    ):
        make_list(tmp_path / "none", tmp_path)
