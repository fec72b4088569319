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
    with pytest.raises((AssertionError, StopIteration, RuntimeError)):
        getattr(contract, f"test_{test}")()
