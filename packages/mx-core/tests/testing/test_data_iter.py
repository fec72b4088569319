# SPDX-License-Identifier: Apache-2.0
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest

from mx_core.testing import DataIterContract

Description = namedtuple("Description", "name shape")


class Values(np.ndarray):
    def asnumpy(self):
        return np.asarray(self)


class Counting:
    """Three batches of four rows."""

    batch_size = 4
    provide_data = (Description("data", (4, 2)),)
    provide_label = (Description("label", (4,)),)
    position = -1

    def iter_next(self):
        self.position += 1
        return self.position < 3

    def getdata(self):
        return [np.full((4, 2), self.position).view(Values)]

    def getlabel(self):
        return [np.full(4, self.position).view(Values)]

    def getpad(self):
        return 0

    def next(self):
        if not self.iter_next():
            raise StopIteration
        return SimpleNamespace(data=self.getdata(), label=self.getlabel(), pad=0)

    __next__ = next

    def __iter__(self):
        return self

    def reset(self):
        self.position = -1


class TestCounting(DataIterContract):
    def make_iter(self):
        return Counting()


class WrongShape(Counting):
    provide_data = (Description("data", (4, 3)),)


class NoReset(Counting):
    def reset(self):
        pass


class Endless(Counting):
    """Starts over by itself after the end."""

    def iter_next(self):
        self.position = (self.position + 2) % 4 - 1
        return self.position >= 0


@pytest.mark.parametrize(
    ("source", "test"),
    [
        (WrongShape, "batches_have_the_shapes_it_provides"),
        (NoReset, "reset_starts_over"),
        (NoReset, "reset_in_the_middle_starts_over"),
        (Endless, "the_end_is_a_stop_iteration_every_time"),
    ],
)
def test_faults_are_found(source, test):
    contract = DataIterContract()
    contract.make_iter = source
    with pytest.raises((AssertionError, RuntimeError)):
        getattr(contract, f"test_{test}")()


class Tuples(Counting):
    """Batches as other libraries have them."""

    def next(self):
        if not self.iter_next():
            raise StopIteration
        return self.getdata()[0], self.getlabel()[0]

    __next__ = next


class BareArrays(Counting):
    def getdata(self):
        return super().getdata()[0]


class Lists(Counting):
    def getdata(self):
        return [self.position]


class PlainDescriptions(Counting):
    provide_data = [("data", (4, 2))]


class OtherBatch(Counting):
    provide_data = (Description("data", (5, 2)),)


class Unnamed(Counting):
    provide_label = (Description("data", (4,)),)


class WrongPad(Counting):
    def getpad(self):
        return 4


class Longer(Counting):
    def next(self):
        if self.position == 1:
            raise StopIteration
        return super().next()

    __next__ = next


class OneArray(Counting):
    """Its getters give the only input and label themselves."""

    def getdata(self):
        return super().getdata()[0]

    def getlabel(self):
        return super().getlabel()[0]

    def next(self):
        if not self.iter_next():
            raise StopIteration
        return SimpleNamespace(data=[self.getdata()], label=[self.getlabel()], pad=0)

    __next__ = next


def test_getters_may_give_one_array():
    contract = DataIterContract()
    contract.make_iter = OneArray
    contract.test_iter_next_and_getters_agree_with_next()


SHAPES, DESCRIPTIONS = "batches_have_the_shapes_it_provides", "descriptions_have_name_and_batch_axis"
GETTERS = "iter_next_and_getters_agree_with_next"


@pytest.mark.parametrize(
    ("source", "test", "message"),
    [
        (Tuples, SHAPES, r"next gives a tuple of 2; expected a DataBatch .*mx\.io\.DataBatch\(data=\[x\]"),
        (Tuples, "reset_starts_over", "next gives a tuple of 2; expected a DataBatch"),
        (BareArrays, SHAPES, "next gives a batch whose data is a Values; expected a DataBatch with lists"),
        (Lists, SHAPES, "next gives a batch with a int in data; expected NDArrays"),
        (PlainDescriptions, SHAPES, r"provide_data has \('data', \(4, 2\)\) in it; expected a list of desc"),
        (WrongShape, SHAPES, r"data: provide_data says \(4, 3\), a batch has \(4, 2\)"),
        (OtherBatch, DESCRIPTIONS, r"data: expected the batch size 4 as first extent, got \(5, 2\)"),
        (Unnamed, DESCRIPTIONS, "expected a name for each array, got data, data"),
        (NoReset, "reset_starts_over", "3 batches, after reset 0"),
        (NoReset, "reset_in_the_middle_starts_over", r"after reset\(\) the iterator gave no batch"),
        (WrongPad, GETTERS, "getpad: expected 0 or more and less than the batch size 4, got 4"),
        (Longer, GETTERS, "next gives 2 batches, iter_next more"),
        (object, SHAPES, "object lacks batch_size, provide_data, provide_label, reset, next, "),
    ],
)
def test_what_was_given_and_what_is_expected_is_said(source, test, message):
    contract = DataIterContract()
    contract.make_iter = source
    with pytest.raises(AssertionError, match=message):
        getattr(contract, f"test_{test}")()
