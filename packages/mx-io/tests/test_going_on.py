# SPDX-License-Identifier: Apache-2.0
"""Epochs that are interrupted anywhere go on at the exact record, in another process's iterator."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_io import codecs
from mx_io.io import CSVIter, ImageDetRecordIter, ImageRecordIter, ImageSourceIter, MNISTIter, NDArrayIter
from mx_io.pipeline import FolderSource
from mx_io.recordio import IRHeader, MXRecordIO, pack

pytestmark = pytest.mark.timeout(120)

COUNT = 23


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("files")
    draw = np.random.default_rng(0)
    with MXRecordIO(root / "a.rec", "w") as plain, MXRecordIO(root / "det.rec", "w") as boxes:
        for i in range(COUNT):
            kind = (".jpg", ".png")[i % 2]
            data = codecs.encode(draw.integers(0, 256, (12, 14, 3), np.uint8), kind, 9)
            plain.write(pack(IRHeader(0, float(i), i, 0), data if i != 5 else b"damaged"))
            boxes.write(pack(IRHeader(0, [2, 5, i, 0.1, 0.1, 0.9, 0.9], i, 0), data))
            (root / "images").mkdir(exist_ok=True)
            (root / "images" / f"{i:02}{('.jpg', '.png')[i % 2]}").write_bytes(data)
    (root / "a.csv").write_text("\n".join(f"{i},{i * i}" for i in range(COUNT)))
    (root / "images.idx").write_bytes(struct.pack(">IIII", 0x803, COUNT, 2, 2) + bytes(range(4 * COUNT)))
    (root / "labels.idx").write_bytes(struct.pack(">II", 0x801, COUNT) + bytes(range(COUNT)))
    return root


def iterators(root: Path) -> dict[str, Callable[[], Any]]:
    images = {
        "data_shape": (3, 8, 8),
        "batch_size": 4,
        "rand_mirror": True,
        "preprocess_threads": 2,
        "seed": 5,
    }
    crop = {"random_resized_crop": True, "min_random_area": 0.3}
    record = images | crop | {"path_imgrec": str(root / "a.rec"), "on_error": "skip"}
    det = {
        "path_imgrec": str(root / "det.rec"),
        "data_shape": (3, 8, 8),
        "batch_size": 4,
        "rand_mirror_prob": 0.5,
    }
    table = np.arange(2 * COUNT).reshape(COUNT, 2)
    digits = {"image": str(root / "images.idx"), "label": str(root / "labels.idx"), "batch_size": 4}
    made: dict[str, Callable[[], Any]] = {
        "records": lambda: ImageRecordIter(**record),
        "records, shuffled": lambda: ImageRecordIter(**record, shuffle=True),
        "records, in whole epochs": lambda: ImageRecordIter(**record, shuffle=True, round_batch=False),
        "boxes": lambda: ImageDetRecordIter(**det, shuffle=True),
        "folder": lambda: ImageSourceIter(FolderSource(root / "images"), **images, **crop, shuffle=True),
        "csv": lambda: CSVIter(data_csv=str(root / "a.csv"), data_shape=(2,), batch_size=4),
        "csv, in whole epochs": lambda: CSVIter(
            data_csv=str(root / "a.csv"), data_shape=(2,), batch_size=4, round_batch=False
        ),
        "digits": lambda: MNISTIter(**digits, shuffle=True, seed=3),
    }
    for handle in ("pad", "discard", "roll_over"):
        made[f"arrays, {handle}"] = lambda handle=handle: NDArrayIter(
            table, np.arange(COUNT), 4, shuffle=True, last_batch_handle=handle
        )
    return made


def contents(batch: Any) -> list[Any]:
    return [batch.pad, *(array.asnumpy().tolist() for array in (*batch.data, *batch.label))]


def read(source: Any, epochs: int) -> list[list[Any]]:
    """The rest of an epoch, and whole ones after it."""
    found = []
    for _ in range(epochs):
        found.append([contents(batch) for batch in source])
        source.reset()
    return found


NAMES = list(iterators(Path()))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_interrupted_epochs_go_on_at_the_exact_record(files, name):
    """Of eleven iterators, ten epochs each; the state goes through a file where it can."""
    make = iterators(files)[name]
    draw = random.Random(name)
    source = make()
    batches = len(read(source, 1)[0])
    for _ in range(10):
        ended = False
        for _ in range(draw.randrange(batches + 2)):
            ended = not source.iter_next()
            if ended:
                break
        state = source.state_dict()
        if not name.startswith("arrays"):
            state = json.loads(json.dumps(state))
        other = make()
        generator = np.random.get_state()
        other.load_state_dict(state)
        if ended:
            source.reset()
            if name.startswith("arrays"):  # whose epoch has no batch left
                np.random.set_state(generator)
                assert not other.iter_next()
                other.reset()
            generator = np.random.get_state()
        elif not name.startswith("arrays"):
            assert other.state_dict() == state
        expected = read(source, 2)
        np.random.set_state(generator)
        assert read(other, 2) == expected
        getattr(other, "close", bool)()
    getattr(source, "close", bool)()


@pytest.mark.parametrize("name", NAMES)
def test_a_state_with_more_batches_than_an_epoch_is_refused(files, name):
    source = iterators(files)[name]()
    source.next()
    state = source.state_dict()
    with pytest.raises(
        ArgumentError, match=r"state: batches: expected at most the [56] of the epoch, got 99"
    ):
        source.load_state_dict(state | {"batches": 99})
    with pytest.raises(ArgumentError, match="batches: expected a whole number of 0 or more, got 'x'"):
        source.load_state_dict(state | {"batches": "x"})
    assert source.state_dict()["batches"] == 1
    older = {name: value for name, value in state.items() if name != "batches"}
    source.load_state_dict(older)
    assert source.state_dict()["batches"] == 0
    getattr(source, "close", bool)()
