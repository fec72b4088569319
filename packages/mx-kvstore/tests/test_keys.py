# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import ArgumentError
from mx_kvstore.keys import as_key, as_priority, pairs
from mx_ndarray import NDArray, nd

POOL = [nd.full((1,), i) for i in range(6)]
arrays = st.sampled_from(POOL)
one_or_more = st.one_of(arrays, st.lists(arrays, min_size=1, max_size=3), st.tuples(arrays, arrays))
whole = st.integers(-(2**40), 2**40)
keys = st.one_of(
    st.lists(st.one_of(whole, st.integers(0, 3).map(np.int64)), max_size=6),
    st.lists(st.text(max_size=2), max_size=6),
)


@settings(max_examples=200, deadline=None)
@given(st.data(), keys, st.booleans())
def test_keys_come_once_in_the_order_of_first_mention_with_all_arrays(
    data: Any, given_: list[Any], as_tuple: bool
) -> None:
    values = [data.draw(one_or_more) for _ in given_]
    made = pairs(tuple(given_) if as_tuple else given_, values, "value")
    assert [key for key, _ in made] == list(dict.fromkeys(given_))
    assert all(type(key) in (int, str) for key, _ in made)
    for key, listed in made:
        expected: list[NDArray] = []
        for other, value in zip(given_, values, strict=True):
            if other == key:
                expected += [value] if isinstance(value, NDArray) else list(value)
        assert [id(array) for array in listed] == [id(array) for array in expected]


@settings(max_examples=50, deadline=None)
@given(st.one_of(whole, st.text()), one_or_more)
def test_one_key_takes_what_a_list_of_one_takes(key: Any, value: Any) -> None:
    assert pairs(key, value, "value") == pairs([key], [value], "value")


def test_the_lists_of_the_caller_are_not_kept() -> None:
    value = [POOL[0]]
    ((_, listed),) = pairs("k", value, "value")
    listed.append(POOL[1])
    assert len(value) == 1


@pytest.mark.parametrize("key", [True, 1.0, None, b"k", (1,), POOL[0]])
def test_other_keys_are_refused(key: Any) -> None:
    with pytest.raises(ArgumentError, match="key: expected an int or a str"):
        as_key(key)


@settings(max_examples=50, deadline=None)
@given(st.lists(whole, min_size=1), st.lists(st.text(), min_size=1), st.randoms())
def test_keys_of_two_kinds_are_refused(numbers: list[int], texts: list[str], random: Any) -> None:
    mixed: list[Any] = [*numbers, *texts]
    random.shuffle(mixed)
    with pytest.raises(ArgumentError, match="inconsistent types of keys"):
        pairs(mixed, [POOL[0]] * len(mixed), "value")


def test_priorities_are_integers_of_32_bits() -> None:
    assert [as_priority(each) for each in (0, -5, np.int64(7), 2**31 - 1, -(2**31))] == [
        0,
        -5,
        7,
        2**31 - 1,
        -(2**31),
    ]
    for wrong in (2**31, -(2**31) - 1, 1.5, "x", None):
        with pytest.raises(ArgumentError, match=r"\[KVStore\] priority: expected an integer of 32 bits"):
            as_priority(wrong)
