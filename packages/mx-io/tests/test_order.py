# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_io.iterators.order import ExampleOrder, shuffled


def epoch(order: ExampleOrder) -> list[tuple[list[int], int]]:
    found = []
    for plan in order.epoch():
        order.consumed(plan)
        found.append((plan.examples.tolist(), plan.pad))
    return found


def test_round_goes_on_behind_the_examples_that_filled_the_last_batch():
    order = ExampleOrder(7, 3)
    assert epoch(order) == [([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2)]
    assert epoch(order) == [([2, 3, 4], 0), ([5, 6, 0], 1)]
    assert epoch(order)[0] == ([1, 2, 3], 0)


def test_pad_leaves_slots_empty_and_discard_drops_them():
    for _ in range(2):
        assert epoch(ExampleOrder(4, 3, tail="pad")) == [([0, 1, 2], 0), ([3], 2)]
        assert epoch(ExampleOrder(4, 3, tail="discard")) == [([0, 1, 2], 0)]


def test_an_epoch_that_was_not_begun_is_not_skipped():
    order = ExampleOrder(50, 5, shuffle=True)
    ahead = order.epoch()
    drawn = [next(ahead) for _ in range(3)]
    first = next(order.epoch())
    assert first.examples.tolist() == drawn[0].examples.tolist()
    assert not order.consumed(drawn[0]), "its epoch is not the present one"
    assert order.consumed(first)
    assert next(order.epoch()).examples.tolist() != drawn[0].examples.tolist()


@settings(deadline=None)
@given(count=st.integers(1, 30), batch=st.integers(1, 9), shuffle=st.booleans(), seed=st.integers(0, 3))
def test_every_pass_reads_every_example_once(count, batch, shuffle, seed):
    order = ExampleOrder(count, batch, shuffle=shuffle, seed=seed)
    seen: dict[int, list[int]] = {}
    for _ in range(4):
        for plan in order.epoch():
            order.consumed(plan)
            assert 0 <= plan.pad < batch == len(plan.examples)
            for example, number in zip(plan.examples.tolist(), plan.passes.tolist(), strict=True):
                seen.setdefault(number, []).append(example)
    *whole, last = (seen[number] for number in sorted(seen))
    assert all(sorted(examples) == list(range(count)) for examples in whole)
    assert len(set(last)) == len(last)


def test_seeds_and_passes_give_different_orders():
    def first(seed: int) -> list[list[int]]:
        order = ExampleOrder(40, 40, shuffle=True, seed=seed)
        return [examples for _ in range(2) for examples, _ in epoch(order)]

    assert first(1) == first(1)
    assert len({tuple(o) for o in first(1) + first(2)}) == 4


def test_nothing_to_read_is_refused():
    with pytest.raises(ValueError, match="at least one example"):
        ExampleOrder(0, 3)


def test_seeds_of_any_size_give_permutations_by_their_lowest_64_bits():
    first = [epoch(ExampleOrder(20, 20, shuffle=True, seed=seed)) for seed in (5, 2**64 + 5, 2**64, -1)]
    assert first[0] == first[1]
    assert len({str(order) for order in first}) == 3


@pytest.mark.parametrize("count", [1 << 17, (1 << 17) + 1, 300_000])
def test_many_examples_are_shuffled_too(count):
    order, again, other = (
        shuffled(count, np.random.Generator(np.random.Philox(key=seed))) for seed in (1, 1, 2)
    )
    assert order.dtype == np.int64 and np.array_equal(order, again) and not np.array_equal(order, other)
    assert np.array_equal(np.sort(order), np.arange(count))
    assert abs(np.corrcoef(order, np.arange(count))[0, 1]) < 0.02
    assert abs(np.mean(np.diff(order) > 0) - 0.5) < 0.01  # shares are shuffled
    for part in np.array_split(order, 20):  # and hold examples of every part of the data
        assert abs(part.mean() / count - 0.5) < 0.03
