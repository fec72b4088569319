# SPDX-License-Identifier: Apache-2.0
"""Sentences as numbers and in batches; values as MXNet 1.9.1 gives them for the same random numbers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_train.rnn import BucketSentenceIter, encode_sentences


def test_words_become_numbers() -> None:
    encoded, vocab = encode_sentences([["a", "b"], ["b", "c", "a"]])
    assert encoded == [[0, 1], [1, 2, 0]]
    assert vocab == {"\n": -1, "a": 0, "b": 1, "c": 2}
    assert encode_sentences([["a", "b"]], invalid_label=0, start_label=0)[0] == [[1, 2]]  # 0 is taken


def test_a_given_vocabulary() -> None:
    vocab = {"a": 1, "?": 5}
    assert encode_sentences([["a", "z", "a"]], vocab, unknown_token="?") == ([[1, 5, 1]], vocab)
    assert encode_sentences([["z"]], {"a": 1}, unknown_token="?")[1] == {"a": 1, "?": 0}
    with pytest.raises(ArgumentError, match="there is no 'z'"):
        encode_sentences([["a", "z"]], vocab)


def sentences() -> list[list[int]]:
    draw = np.random.RandomState(0)
    return [draw.randint(1, 9, size=n).tolist() for n in draw.randint(1, 12, size=60)]


def iterator(**kwargs: Any) -> BucketSentenceIter:
    random.seed(3)
    np.random.seed(3)
    return BucketSentenceIter(sentences(), 4, **kwargs)


def test_the_first_batches_are_mxnets() -> None:
    batches = iterator()
    assert (batches.buckets, batches.default_bucket_key) == ([1, 2, 3, 4, 5, 6, 8, 9, 10], 10)
    assert batches.provide_data[0].shape == batches.provide_label[0].shape == (4, 10)
    batch = batches.next()
    assert batch.bucket_key == 2
    assert str(batches.provide_data) == "[DataDesc[data,(4, 10),<class 'numpy.float32'>,NT]]"
    assert str(batch.provide_label) == "[DataDesc[softmax_label,(4, 2),<class 'numpy.float32'>,NT]]"
    assert batch.provide_data[0].shape == batch.data[0].shape == (4, 2)
    assert batch.data[0].asnumpy().tolist() == [[2, 6], [3, 8], [8, 1], [4, 6]]
    assert batch.label[0].asnumpy().tolist() == [[6, -1], [8, -1], [1, -1], [6, -1]]
    assert [b.bucket_key for b in batches] == [5, 6, 1, 10, 4, 8, 3, 8, 9, 4]


def test_layout_types_and_names() -> None:
    batches = iterator(
        buckets=[20, 5, 10], layout="TN", dtype="int32", data_name="d", label_name="l", invalid_label=0
    )
    assert batches.major_axis == 1
    for batch in batches:
        (data, label), length = (batch.data[0].asnumpy(), batch.label[0].asnumpy()), batch.bucket_key
        assert data.shape == label.shape == (length, 4) == batch.provide_data[0].shape
        assert data.dtype == np.dtype(batch.provide_data[0].dtype) == np.int32
        assert (data[1:] == label[:-1]).all() and not label[-1].any()
    assert (batches.provide_data[0].name, batches.provide_label[0].name) == ("d", "l")


def test_buckets_without_sentences_are_left_out() -> None:
    given = [[1, 2, 3]] * 8 + [[1] * 5] * 4
    batches = BucketSentenceIter(given, 4, buckets=[10, 4, 2, 8])
    assert (batches.buckets, batches.default_bucket_key) == ([4, 8], 8)
    assert batches.provide_data[0].shape == batches.provide_label[0].shape == (4, 8)
    assert sorted((b.bucket_key, b.data[0].shape) for b in batches) == [
        (4, (4, 4)), (4, (4, 4)), (8, (4, 8)),
    ]  # fmt: skip


def test_every_sentence_that_fits_comes_once_an_epoch() -> None:
    given = [[n] * 3 for n in range(8)]
    batches = BucketSentenceIter(given, 2, buckets=[3])
    for _ in range(2):
        rows = [row for batch in batches for row in batch.data[0].asnumpy().tolist()]
        assert sorted(rows) == given
        batches.reset()


def test_what_cannot_be_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ArgumentError, match="layout: expected NT or TN, got 'XX'"):
        iterator(layout="XX")
    with pytest.raises(ArgumentError, match="no length occurs 5 times"):
        BucketSentenceIter([[1, 2], [1]], 5)
    with pytest.raises(ArgumentError, match="no sentence is as short as 2"):
        BucketSentenceIter([[1, 2, 3]] * 8, 4, buckets=[1, 2])
    caplog.clear()
    iterator(buckets=[3])
    assert "sentences are longer than the largest bucket" in caplog.text
