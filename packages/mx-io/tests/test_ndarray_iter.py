# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import ArgumentError, DTypeError, ShapeError
from mx_io.io import DataBatch, DataDesc, NDArrayIter
from mx_ndarray import nd


def epoch(source: NDArrayIter) -> list[tuple[list[int], int]]:
    return [(batch.data[0].asnumpy().astype(int).tolist(), batch.pad) for batch in source]


def test_pad_fills_the_last_batch_with_the_first_examples():
    source = NDArrayIter(np.arange(7), batch_size=3)
    for _ in range(2):
        assert epoch(source) == [([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2)]
        source.reset()


def test_pad_repeats_the_data_as_often_as_needed():
    ((values, pad),) = epoch(NDArrayIter(np.arange(10), batch_size=205))
    assert values == list(range(10)) * 20 + [0, 1, 2, 3, 4] and pad == 195


def test_discard_drops_the_last_batch():
    source = NDArrayIter(np.arange(7), batch_size=3, last_batch_handle="discard")
    assert epoch(source) == [([0, 1, 2], 0), ([3, 4, 5], 0)]


def test_roll_over_begins_the_next_epoch_with_what_was_left():
    source = NDArrayIter(np.arange(7), batch_size=3, last_batch_handle="roll_over")
    assert epoch(source) == [([0, 1, 2], 0), ([3, 4, 5], 0)]
    source.reset()
    assert epoch(source) == [([6, 0, 1], 1), ([2, 3, 4], 0)]
    source.reset()
    assert epoch(source) == [([5, 6, 0], 2), ([1, 2, 3], 0), ([4, 5, 6], 0)]
    source.reset()
    assert epoch(source)[0] == ([0, 1, 2], 0)


def test_hard_reset_forgets_what_was_left():
    source = NDArrayIter(np.arange(7), batch_size=3, last_batch_handle="roll_over")
    epoch(source)
    source.hard_reset()
    assert epoch(source)[0] == ([0, 1, 2], 0)


@pytest.mark.parametrize(("handle", "batches"), [("pad", 8), ("discard", 7), ("roll_over", 7)])
def test_numbers_of_batches(handle, batches):
    source = NDArrayIter(np.zeros((1000, 2)), np.zeros(1000), 128, last_batch_handle=handle)
    assert len(list(source)) == batches


@settings(deadline=None)
@given(count=st.integers(1, 20), batch=st.integers(1, 6), epochs=st.integers(1, 4))
def test_roll_over_reads_everything_equally_often(count, batch, epochs):
    if count < batch:
        with pytest.raises(ArgumentError):
            NDArrayIter(np.arange(count), batch_size=batch, last_batch_handle="roll_over")
        return
    source = NDArrayIter(np.arange(count), batch_size=batch, last_batch_handle="roll_over")
    seen: list[int] = []
    for _ in range(epochs):
        for values, _ in epoch(source):
            seen += values
        source.reset()
    assert seen == [i % count for i in range(len(seen))]
    assert len(seen) == count * epochs // batch * batch


def test_shuffling_keeps_data_and_labels_together():
    np.random.seed(3)
    source = NDArrayIter(np.arange(50).reshape(50, 1) * 2, np.arange(50), 10, shuffle=True)
    orders = []
    for _ in range(2):
        batches = list(source)
        data = np.concatenate([b.data[0].asnumpy()[:, 0] for b in batches])
        labels = np.concatenate([b.label[0].asnumpy() for b in batches])
        assert np.array_equal(data, labels * 2) and sorted(labels) == list(range(50))
        assert np.array_equal(labels, source.label[0][1].asnumpy())
        orders.append(labels.tolist())
        source.reset()
    assert orders[0] != orders[1]


def test_names_of_one_of_several_and_of_named_inputs():
    array = np.zeros((4, 2))
    assert [d.name for d in NDArrayIter(array, np.zeros(4)).provide_label] == ["softmax_label"]
    assert [d.name for d in NDArrayIter([array, array]).provide_data] == ["_0_data", "_1_data"]
    named = NDArrayIter({"left": array, "right": np.zeros((4, 3, 1))}, batch_size=2)
    assert named.provide_data == [("left", (2, 2)), ("right", (2, 3, 1))]
    assert NDArrayIter(array).provide_label == []


def test_element_types_are_those_of_ndarrays_and_float32_else():
    source = NDArrayIter(nd.array(np.arange(4), dtype="int32"), np.arange(4), 2)
    batch = source.next()
    assert (batch.data[0].dtype, batch.label[0].dtype) == (np.int32, np.float32)
    assert (source.provide_data[0].dtype, source.provide_label[0].dtype) == (np.int32, np.float32)


class Dataset:
    """What h5py's datasets can do: slices by increasing positions."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, positions):
        assert (np.diff(positions) > 0).all()
        return self.array[positions]


def test_a_dataset_is_read_batch_by_batch():
    source = NDArrayIter(Dataset(np.arange(7, dtype=np.int16)), batch_size=3, shuffle=True)
    values = [value for batch in source for value in batch.data[0].asnumpy().tolist()]
    assert values[:7] == source.idx.tolist()


def test_changing_a_batch_leaves_the_data_alone():
    array = np.arange(4, dtype=np.float32)
    source = NDArrayIter(array, batch_size=4)
    source.next().data[0][:] = 9
    assert array.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("shuffle", [False, True])
def test_more_labels_than_data(shuffle):
    """As MXNet: `NDArrayIter(data[:10], label)`, of which the last labels are never used."""
    with pytest.warns(
        UserWarning, match="softmax_label: the first 3 of 5 examples are used, since data has 3"
    ):
        source = NDArrayIter(np.arange(3), np.arange(5) * 10, batch_size=2, shuffle=shuffle)
    batches = list(source)
    assert source.num_data == 3 and [batch.pad for batch in batches] == [0, 1]
    data, labels = (
        [x for batch in batches for x in getattr(batch, part)[0].asnumpy()] for part in ("data", "label")
    )
    assert sorted(data[:3]) == [0, 1, 2] and [x * 10 for x in data] == labels
    assert source.label[0][1].shape == (3,)


def test_arrays_of_a_dict_are_in_the_order_of_their_names():
    source = NDArrayIter(
        {"b": np.zeros((4, 2)), "a": np.ones((4, 3))}, {"z": np.zeros(4), "y": np.ones(4)}, 2
    )
    assert [desc.name for desc in source.provide_data] == ["a", "b"]
    assert [desc.name for desc in source.provide_label] == ["y", "z"]
    batch = next(source)
    assert [array.shape for array in batch.data] == [(2, 3), (2, 2)]
    many = NDArrayIter([np.full(2, i) for i in range(12)])
    assert [array.asnumpy()[0] for array in next(many).data] == list(range(12))


def test_wrong_inputs_are_explained():
    with pytest.raises(ShapeError, match="softmax_label: expected 4 examples as data has, got 3"):
        NDArrayIter(np.zeros(4), np.zeros(3))
    with pytest.raises(ArgumentError, match="got 'drop'"):
        NDArrayIter(np.zeros(4), last_batch_handle="drop")
    with pytest.raises(ArgumentError, match="at most the number of examples, 4, got 5"):
        NDArrayIter(np.zeros(4), batch_size=5, last_batch_handle="discard")
    with pytest.raises(DTypeError, match="expected an array, a list of arrays or a dict, got int"):
        NDArrayIter(3)
    with pytest.raises(ArgumentError, match="at least one array"):
        NDArrayIter([])


def test_descriptions_and_batches_show_what_they_are():
    desc = DataDesc("data", (2, 3))
    assert desc == ("data", (2, 3)) and "DataDesc[data,(2, 3)" in repr(desc)
    assert [DataDesc.get_batch_axis(layout) for layout in ("NCHW", "TNC", None, "C")] == [0, 1, 0, -1]
    assert DataDesc.get_list([("a", (1,))], [("a", np.int32)])[0].dtype == np.int32
    batch = DataBatch([nd.zeros((2, 3))], [nd.zeros((2,))])
    assert str(batch) == "DataBatch: data shapes: [(2, 3)] label shapes: [(2,)]"
    with pytest.raises(TypeError, match="data: expected a list"):
        DataBatch(nd.zeros((1,)))


def test_shuffled_epochs_are_those_of_mxnet():
    """What MXNet 1.9.1 gives: each shuffle permutes the order of the epoch before."""
    np.random.seed(0)
    source = NDArrayIter(np.arange(10), batch_size=4, shuffle=True, last_batch_handle="roll_over")
    expected = [
        [[2, 8, 4, 9], [1, 6, 7, 3]], [[0, 5, 5, 7], [0, 1, 6, 2], [4, 3, 9, 8]], [[9, 6, 1, 2], [5, 4, 8, 0]],
        [[7, 3, 3, 5], [0, 2, 1, 8], [6, 7, 4, 9]],
    ]  # fmt: skip
    for batches in expected:
        assert [values for values, _ in epoch(source)] == batches
        source.reset()


def test_attributes_hold_arrays_in_the_present_order():
    values = np.arange(6, dtype=np.float32)
    source = NDArrayIter({"x": values}, values + 10, batch_size=2, shuffle=True)
    ((name, array),) = source.data
    assert name == "x" and sorted(array.asnumpy()) == values.tolist()
    order = [value for batch, _ in epoch(source) for value in batch]
    assert array.asnumpy().tolist() == order
    assert [each.asnumpy()[0] for each in source.data_list] == [order[0], order[0] + 10]
    values += 1  # still the caller's
    assert array.asnumpy().tolist() == order


@pytest.mark.parametrize("handle", ["pad", "discard", "roll_over"])
def test_an_iterator_goes_on_from_the_state_of_another(handle):
    def made():
        return NDArrayIter(np.arange(10), batch_size=4, shuffle=True, last_batch_handle=handle)

    source, other = made(), made()
    for _ in range(3):
        epoch(source)
        source.reset()
    other.load_state_dict(source.state_dict())
    generator = np.random.get_state()
    expected = []
    for _ in range(3):
        expected.append(epoch(source))
        source.reset()
    np.random.set_state(generator)
    for batches in expected:
        assert epoch(other) == batches
        other.reset()
    with pytest.raises(ShapeError, match="expected 9 examples, got 10"):
        NDArrayIter(np.arange(9), batch_size=4).load_state_dict(source.state_dict())


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        (None, ArgumentError, "expected what state_dict gave, got None"),
        ({}, ArgumentError, r"with 'idx', got the keys \[\]"),
        ({"rows": range(1, 11)}, ArgumentError, "rows: expected numbers from 0 to 9, got 1 to 10"),
        ({"carried": [-1]}, ArgumentError, "carried: expected numbers from 0 to 9, got -1 to -1"),
        ({"rows": range(3)}, ShapeError, "rows: expected 10 examples, got 3"),
        ({"idx": ["a"] * 10}, ArgumentError, "idx: expected a list of whole numbers"),
        ({"idx": 3}, ArgumentError, "idx: expected a list of whole numbers"),
        ({"rows": [[1], [2, 3]]}, ArgumentError, "rows: expected whole numbers"),
    ],
)
def test_another_state_is_refused_and_changes_nothing(changed, kind, message):
    source = NDArrayIter(np.arange(10), batch_size=4, last_batch_handle="roll_over")
    state = {"idx": np.arange(9, -1, -1), "rows": np.arange(10), "carried": np.array([3])}
    with pytest.raises(kind, match=message):
        source.load_state_dict({**state, **changed} if changed else changed)
    assert epoch(source) == [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0)]


def test_later_changes_of_the_given_arrays_do_not_reach_the_batches():
    values, numbers = np.arange(4, dtype=np.float32), nd.array([0, 10, 20, 30])
    source = NDArrayIter(values, numbers, batch_size=4)
    values[:] = -1
    numbers[:] = -1
    batch = source.next()
    assert batch.data[0].asnumpy().tolist() == [0, 1, 2, 3]
    assert batch.label[0].asnumpy().tolist() == [0, 10, 20, 30]


@pytest.mark.parametrize("shuffle", [False, True])
def test_data_and_labels_can_be_replaced_as_in_mxnet(shuffle):
    source = NDArrayIter(np.arange(6), np.arange(6) * 10, batch_size=6, shuffle=shuffle)
    source.data = [(name, array * 2) for name, array in source.data]
    before = source.next()
    assert np.array_equal(before.data[0].asnumpy() * 5, before.label[0].asnumpy())
    source.reset()
    after = source.next()
    assert np.array_equal(after.data[0].asnumpy() * 5, after.label[0].asnumpy())
    source.label = []
    source.data = {"one": np.ones((6, 2)), "two": nd.zeros((6,), dtype="int32")}
    source.reset()
    assert [desc.name for desc in source.provide_data] == ["one", "two"] and source.num_source == 2
    batch = source.next()
    assert batch.data[0].shape == (6, 2) and batch.data[1].dtype == np.int32 and batch.label == []
    with pytest.raises(ShapeError, match="data: expected 6 examples as the iterator has, got 5"):
        source.data = np.zeros(5)
    assert len(source.data) == 2
