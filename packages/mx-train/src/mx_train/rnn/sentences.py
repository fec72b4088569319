# SPDX-License-Identifier: Apache-2.0
"""Sentences as numbers, in batches of equal length."""

from __future__ import annotations

import logging
import random
from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_io.io import DataBatch, DataDesc, DataIter
from mx_io.iterators.states import entry
from mx_ndarray import NDArray, nd


def encode_sentences(
    sentences: Sequence[Sequence[Hashable]],
    vocab: dict[Any, int] | None = None,
    invalid_label: int = -1,
    invalid_key: Hashable = "\n",
    start_label: int = 0,
    unknown_token: Hashable | None = None,
) -> tuple[list[list[int]], dict[Any, int]]:
    """Words as numbers.

    Parameters
    ----------
    sentences : sequences of words
    vocab : dict, optional
        Number by word; by default a new one, which gets every word that occurs.
    invalid_label : int
        The number of `invalid_key`, which no word gets.
    start_label : int
        The first number given.
    unknown_token : optional
        What words count as that a given `vocab` lacks.

    Returns
    -------
    encoded : list of list of int
    vocab : dict
        The one given, if any; an unknown token that it lacks is entered.

    Raises
    ------
    ArgumentError  a given vocabulary lacks a word, and there is no unknown token
    """
    numbers = {invalid_key: invalid_label} if vocab is None else vocab
    following = start_label

    def number(word: Any) -> int:
        nonlocal following
        if word not in numbers:
            if vocab is not None and unknown_token is None:
                raise ArgumentError(
                    f"[encode_sentences] vocab: there is no {word!r}; give unknown_token for such words"
                )
            key = word if unknown_token is None else unknown_token
            if key not in numbers:
                following += following == invalid_label
                numbers[key] = following
                following += 1
            return numbers[key]
        return numbers[word]

    return [[number(word) for word in sentence] for sentence in sentences], numbers


class BucketSentenceIter(DataIter):
    """Batches of sentences of about one length, for `BucketingModule`; each word is to be followed by the next.

    Sentences are filled up to the length of their bucket. Batches come in random order (`random`), sentences in
    random order within their bucket (`numpy.random`). What makes no full batch is left out of an epoch.

    Threads: one at a time.

    Parameters
    ----------
    sentences : list of list of int
        From `encode_sentences`.
    batch_size : int
    buckets : list of int, optional
        Lengths; by default those that occur at least `batch_size` times. Longer sentences are left out, as are
        buckets without a sentence.
    invalid_label : int
        Fills up data and labels.
    data_name, label_name : str
    dtype : str
    layout : str
        `NT` (batch, length) or `TN`.

    Attributes
    ----------
    buckets : list of int
        Lengths of the buckets with sentences, ascending.
    default_bucket_key : int
        The largest of them.

    Raises
    ------
    ArgumentError  another layout; no bucket has a sentence
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[int]],
        batch_size: int,
        buckets: Sequence[int] | None = None,
        invalid_label: int = -1,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
        layout: str = "NT",
    ) -> None:
        super().__init__()
        if layout not in ("NT", "TN"):
            raise ArgumentError(f"[BucketSentenceIter] layout: expected NT or TN, got {layout!r}")
        if not buckets:
            counts = np.bincount([len(sentence) for sentence in sentences])
            buckets = [length for length, count in enumerate(counts) if count >= batch_size]
        if not buckets:
            raise ArgumentError(
                f"[BucketSentenceIter] buckets: no length occurs {batch_size} times; give the lengths"
            )
        self.batch_size = batch_size
        self.data_name, self.label_name = data_name, label_name
        self.dtype, self.layout, self.invalid_label = dtype, layout, invalid_label
        self.major_axis = layout.index("N")
        self.buckets, self.data = self._filled(sentences, sorted(buckets))
        self.default_bucket_key = self.buckets[-1]
        self.provide_data = [self._described(data_name, self.default_bucket_key)]
        self.provide_label = [self._described(label_name, self.default_bucket_key)]
        self.idx = [
            (i, begin)
            for i, rows in enumerate(self.data)
            for begin in range(0, len(rows) - batch_size + 1, batch_size)
        ]
        self.reset()

    def _filled(
        self, sentences: Sequence[Sequence[int]], buckets: Sequence[int]
    ) -> tuple[list[int], list[np.ndarray[Any, Any]]]:
        """The lengths that sentences fit, and per length the sentences filled up to it."""
        groups: list[list[Any]] = [[] for _ in buckets]
        for sentence in sentences:
            i = bisect_left(buckets, len(sentence))
            if i < len(groups):
                row = np.full(buckets[i], self.invalid_label, self.dtype)
                row[: len(sentence)] = sentence
                groups[i].append(row)
        left_out = len(sentences) - sum(map(len, groups))
        if left_out:
            logging.warning("BucketSentenceIter: %d sentences are longer than the largest bucket", left_out)
        filled = [
            (length, np.array(rows, self.dtype)) for rows, length in zip(groups, buckets, strict=True) if rows
        ]
        if not filled:
            raise ArgumentError(
                f"[BucketSentenceIter] buckets: no sentence is as short as {buckets[-1]}, the largest bucket"
            )
        return [length for length, _ in filled], [rows for _, rows in filled]

    def _described(self, name: str, length: int) -> DataDesc:
        shape = (self.batch_size, length) if self.major_axis == 0 else (length, self.batch_size)
        return DataDesc(name, shape, dtype=np.dtype(self.dtype).type, layout=self.layout)

    @property
    def nddata(self) -> list[NDArray]:
        """The sentences of each length, in the order of this epoch: arrays (sentences, length)."""
        return [nd.array(rows, dtype=self.dtype) for rows in self.data]

    @property
    def ndlabel(self) -> list[NDArray]:
        """Their labels: the sentences without their first words."""
        return [nd.array(self._following(rows), dtype=self.dtype) for rows in self.data]

    def _following(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        following = np.full_like(rows, self.invalid_label)
        following[:, :-1] = rows[:, 1:]
        return following

    def reset(self) -> None:
        """A new epoch in another order."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        for rows in self.data:
            np.random.shuffle(rows)

    def state_dict(self) -> dict[str, Any]:
        """Where the iterator is, between two epochs: the order of batches, and the sentences in their order."""
        return {"idx": np.array(self.idx), **{f"rows{i}": rows.copy() for i, rows in enumerate(self.data)}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begins the epoch that an iterator of the same data was to begin when `state_dict` was called.

        Raises
        ------
        ArgumentError  the state is something else, or of other data; nothing changes
        """
        idx = _array(entry(state, "idx", "BucketSentenceIter"), "idx", np.int64, (len(self.idx), 2))
        if sorted(map(tuple, idx.tolist())) != sorted(self.idx):
            raise ArgumentError(
                "[BucketSentenceIter] state: idx: expected the same batches in another order, got those of other "
                "sentences or of another batch_size"
            )
        names = [f"rows{i}" for i in range(len(self.data))]
        data = [
            _array(entry(state, name, "BucketSentenceIter"), name, self.dtype, rows.shape)
            for name, rows in zip(names, self.data, strict=True)
        ]
        self.idx = [(i, begin) for i, begin in idx.tolist()]
        self.data = data
        self.curr_idx = 0

    def next(self) -> DataBatch:
        """The next batch; its `bucket_key` is the length.

        Raises
        ------
        StopIteration  the epoch is over
        """
        if self.curr_idx == len(self.idx):
            raise StopIteration
        i, begin = self.idx[self.curr_idx]
        self.curr_idx += 1
        rows = self.data[i][begin : begin + self.batch_size]
        follow = self._following(rows)
        length = self.buckets[i]
        data, label = (
            nd.array(values if self.major_axis == 0 else values.T, dtype=self.dtype)
            for values in (rows, follow)
        )
        return DataBatch(
            [data],
            [label],
            pad=0,
            bucket_key=length,
            provide_data=[self._described(self.data_name, length)],
            provide_label=[self._described(self.label_name, length)],
        )


def _array(value: Any, name: str, dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A copy of one array of a state."""
    try:
        made = np.array(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(
            f"[BucketSentenceIter] state: {name}: expected numbers of shape {shape}: {error}"
        ) from error
    if made.shape != shape:
        raise ArgumentError(f"[BucketSentenceIter] state: {name}: expected shape {shape}, got {made.shape}")
    return made
