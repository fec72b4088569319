# SPDX-License-Identifier: Apache-2.0
"""Tar files of images and labels, whole and damaged."""

from __future__ import annotations

import contextlib
import io
import random
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError, FileFormatError
from mx_io import codecs
from mx_io.io import ImageSourceIter
from mx_io.pipeline import Source, TarSource

pytestmark = pytest.mark.timeout(60)


def made(source: Source, **more: Any) -> ImageSourceIter:
    return ImageSourceIter(source, **{"data_shape": (3, 4, 5), "batch_size": 4, **more})


def numbers(batches: Any) -> list[int]:
    """Of the examples that count."""
    return [int(i) for batch in batches for i in batch.index[: len(batch.index) - batch.pad]]


def _shard(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_tar_shards(tmp_path):
    pixels = [codecs.encode(np.full((4, 5, 3), i, np.uint8), ".png") for i in range(5)]
    labels = [{"cls": b"3"}, {"cls": b" 4 \n"}, {"json": b'{"label": 5}'}, {"json": b"[6]"}, {}]
    shards = []
    for shard, chosen in enumerate(([0, 1, 2], [3, 4])):
        files = {}
        for i in chosen:
            files[f"x/{i}.seg.png" if i == 9 else f"x/{i}.png"] = pixels[i]
            files |= {f"x/{i}.{kind}": text for kind, text in labels[i].items()}
        shards.append(_shard(tmp_path / f"{shard}.tar", files))
    source = TarSource(shards)
    batches = made(source, batch_size=5)
    batch = batches.next()
    assert batch.label[0].asnumpy().tolist() == [3, 4, 5, 6, 0]
    assert batch.data[0].asnumpy()[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert source.place(3) == f"{shards[1]}: x/3"
    batches.close()
    part = made(TarSource(shards), num_parts=2, part_index=1, round_batch=False)
    assert numbers(part) == [2, 3, 4]
    part.close()
    bad = _shard(tmp_path / "bad.tar", {"0.png": pixels[0], "0.cls": b"cat"})
    broken = made(TarSource(bad))
    with pytest.raises(FileFormatError, match=r"bad\.tar: 0: expected a label in \.cls, got b'cat'"):
        broken.next()
    broken.close()
    with pytest.raises(FileFormatError, match=r"expected an image \(\..*\), got \.cls"):
        TarSource(_shard(tmp_path / "none.tar", {"0.cls": b"1"}))
    (tmp_path / "no.tar").write_bytes(b"x" * 2000)
    with pytest.raises(FileFormatError, match="expected a tar file that is not compressed"):
        TarSource(tmp_path / "no.tar")
    with pytest.raises(ArgumentError, match="expected at least one tar file"):
        TarSource([])


def test_damaged_and_cut_tar_shards_are_refused(tmp_path):
    pixels = codecs.encode(np.full((4, 5, 3), 1, np.uint8), ".png")
    path = _shard(tmp_path / "a.tar", {f"{i}.png": pixels for i in range(6)})
    whole = path.read_bytes()
    for content, length in (
        (whole, 6),
        (whole[: 12 * 512], 6),
        (whole[: 13 * 512], 6),
        (whole[: 4 * 512], 2),
    ):
        path.write_bytes(content)
        with contextlib.closing(TarSource(path)) as source:
            assert len(source) == length  # shards need no blocks of zeros at their end
    damaged = bytearray(whole)
    damaged[6 * 512] ^= 1
    zeroed = whole[: 4 * 512] + bytes(512) + whole[5 * 512 :]
    for content, message in (
        (bytes(damaged), "at byte 3072: expected the head of a file, or zeros to the end, got b'2"),
        (whole[: 4 * 512 + 300], "at byte 2048: .*, got 300 bytes: the file is cut"),
        (zeroed, "at byte 2560: .*the file is damaged, or several are joined"),
        (whole + whole, f"at byte {len(whole)}: .*several are joined"),
        (whole[: 5 * 512 + 10], "unexpected end of data"),
    ):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=message) as raised:
            TarSource(path)
        assert str(raised.value).count(str(path)) == 1


@pytest.mark.parametrize("size", [-1, -256, -1024])
def test_a_negative_size_in_a_tar_file_is_refused_when_it_is_opened(tmp_path, size):
    head = tarfile.TarInfo("0.png")
    head.size = size
    (tmp_path / "a.tar").write_bytes(head.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    with pytest.raises(
        FileFormatError, match=rf"a\.tar: at byte 0: expected a size of 0 or more, got {size}:"
    ):
        TarSource(tmp_path / "a.tar")


def test_no_byte_of_a_tar_file_breaks_its_reader(tmp_path):
    pixels = codecs.encode(np.full((4, 5, 3), 1, np.uint8), ".png")
    path = _shard(tmp_path / "a.tar", {"x" * 120 + f"{i}.png": pixels for i in range(3)})
    whole, rng = path.read_bytes(), random.Random(1)
    for _ in range(300):
        damaged = bytearray(whole[: len(whole) - rng.choice((0, rng.randrange(9000)))])
        head = rng.randrange(len(damaged) // 512) * 512
        damaged[head + rng.choice((0, 124, 124, 156, 257, rng.randrange(400)))] = rng.choice(
            (0, 128, 255, 0x4C, 0x78)
        )
        if rng.random() < 0.7:  # a checksum that is right lets the rest be read
            block = damaged[head : head + 148] + b" " * 8 + damaged[head + 156 : head + 512]
            damaged[head + 148 : head + 156] = b"%06o\0 " % sum(block)
        path.write_bytes(damaged)
        try:
            with contextlib.closing(TarSource(path)) as source:
                source.read(range(len(source)))
        except FileFormatError:
            pass
