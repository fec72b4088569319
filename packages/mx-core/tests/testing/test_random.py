# SPDX-License-Identifier: Apache-2.0
"""The contract of random resources accepts counters per context and finds shared or stuck ones."""

import ctypes as c

import pytest

from mx_core.testing import RandomContract
from mx_core.testing.tables import Head, ResourceTable

FIELDS = dict(ResourceTable._fields_)


class Counters:
    """Key: seed and device; offset: a counter of each context."""

    name = "Counters"
    advances = True
    separate = True

    def __init__(self):
        self.seeds, self.offsets, self.common = {}, {}, 0
        functions = [FIELDS[name](getattr(self, name)) for name in ("reserve_random", "seed", "seed_all")]
        self.table = ResourceTable(Head(c.sizeof(ResourceTable), 1, 0), None, *functions)
        new = c.pythonapi.PyCapsule_New
        new.restype, new.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
        self.label = b"mx.resource.v1"
        self.capsule = new(c.addressof(self.table), self.label, None)

    def where(self, context):
        return (context.type, context.id) if self.separate else (0, 0)

    def reserve_random(self, _self, context, blocks, key, offset):
        where = self.where(context)
        key[0] = self.seeds.get(where, self.common) * 1000 + where[1]
        offset[0] = self.offsets.get(where, 0)
        if self.advances:
            self.offsets[where] = offset[0] + blocks

    def seed(self, _self, context, seed):
        self.seeds[self.where(context)], self.offsets[self.where(context)] = seed, 0

    def seed_all(self, _self, seed):
        self.seeds, self.offsets, self.common = {}, {}, seed


class TestCounters(RandomContract):
    def make_random(self):
        return Counters()


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ({"advances": False}, "reservations_follow_each_other_without_overlap"),
        ({"separate": False}, "contexts_have_streams_of_their_own"),
    ],
)
def test_faults_are_found(fault, test):
    contract = RandomContract()
    contract.make_random = lambda: type("Faulty", (Counters,), fault)()
    with pytest.raises(AssertionError):
        getattr(contract, f"test_{test}")()
