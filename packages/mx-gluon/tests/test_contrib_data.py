# SPDX-License-Identifier: Apache-2.0
"""Texts and the sampler of contrib.data give what MXNet 1.9.1 gives (`tests/oracle/gluon`)."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core.errors import FileFormatError, MissingFileError
from mx_gluon.contrib.data import IntervalSampler, text
from mx_gluon.contrib.data.text import WikiText2, WikiText103
from mx_gluon.data import BatchSampler, DataLoader
from mx_gluon.errors import RefusedError
from mx_train.vocabulary import Vocabulary, count_tokens_from_str
from testkit.gluon_record import FOLDER

RECORDED: dict[str, Any] = json.loads((FOLDER / "text.json").read_text())
FILES = {"train": "wiki.train.tokens", "validation": "wiki.valid.tokens", "test": "wiki.test.tokens"}


@pytest.mark.parametrize("packed", [False, True], ids=["file", "archive"])
@pytest.mark.parametrize("case", RECORDED["texts"], ids=range(len(RECORDED["texts"])))
def test_texts(tmp_path: Path, case: dict[str, Any], packed: bool) -> None:
    name, segment, content, length, words = case["given"]
    kind: type[WikiText2 | WikiText103] = getattr(text, name)
    if packed:
        with zipfile.ZipFile(tmp_path / kind.archive, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(f"{kind.folder}/{FILES[segment]}", content.encode())
    else:
        (tmp_path / FILES[segment]).write_bytes(content.encode())
    vocab = words and Vocabulary(count_tokens_from_str(" ".join(words)))
    dataset = kind(tmp_path, segment, vocab, length)
    assert len(dataset) == case["length"]
    found = [[part.asnumpy().tolist() for part in dataset[i]] for i in range(len(dataset))]
    assert found == [list(rows) for rows in zip(case["data"], case["label"], strict=True)]
    assert all(
        part.shape == (length,) and part.dtype == np.int32 for i in range(len(found)) for part in dataset[i]
    )
    assert dataset.vocabulary.idx_to_token == case["tokens"]
    assert dataset.frequencies == case["frequencies"]


def test_a_loader_makes_batches(tmp_path: Path) -> None:
    (tmp_path / FILES["train"]).write_text("a b c d e\nf g h\n" * 3)
    dataset = WikiText2(tmp_path, seq_len=4)
    assert len(dataset) == 7
    order = BatchSampler(IntervalSampler(7, 2, rollover=False), 2)
    batches = [data.asnumpy().tolist() for data, _ in DataLoader(dataset, batch_sampler=order)]
    rows = [dataset[i][0].asnumpy().tolist() for i in (0, 2, 4, 6)]
    assert batches == [rows[:2], rows[2:]]


def test_the_folder_is_that_of_mxnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    for kind, name in ((WikiText2, "wikitext-2"), (WikiText103, "wikitext-103")):
        folder = tmp_path / "datasets" / name
        told = f"{folder} has not wiki.valid.tokens nor {name}-v1.zip: nothing here opens a network"
        with pytest.raises(MissingFileError, match=told) as caught:
            kind(segment="validation")
        assert isinstance(caught.value, FileNotFoundError)
        assert not folder.exists()
        folder.mkdir(parents=True)
        (folder / "wiki.valid.tokens").write_text("a " * 36)
        assert len(kind(segment="validation")) == 1


def test_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="segment: expected one of train, validation, test, got 'valid'"):
        WikiText2(tmp_path, segment="valid")
    with pytest.raises(RefusedError, match="seq_len: expected 1 or more, got 0"):
        WikiText2(tmp_path, seq_len=0)
    archive = tmp_path / "wikitext-2-v1.zip"
    archive.write_bytes(b"no archive")
    with pytest.raises(FileFormatError, match="wikitext-2-v1.zip"):
        WikiText2(tmp_path)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("other.tokens", "a")
    with pytest.raises(FileFormatError, match="it has no file wiki.train.tokens"):
        WikiText2(tmp_path)
    (tmp_path / FILES["train"]).write_bytes(b"a \xff b")
    with pytest.raises(FileFormatError, match=r"wiki.train.tokens: expected text in UTF-8"):
        WikiText2(tmp_path)


@pytest.mark.parametrize(("arguments", "order"), RECORDED["intervals"])
def test_intervals(arguments: list[Any], order: list[int]) -> None:
    sampler = IntervalSampler(*arguments)
    assert list(sampler) == list(sampler) == order
    assert len(sampler) == len(order)


@pytest.mark.parametrize("interval", [0, -1, 4])
def test_intervals_that_do_not_fit(interval: int) -> None:
    with pytest.raises(RefusedError, match=f"expected a number from 1 to the length 3, got {interval}"):
        IntervalSampler(3, interval)
