# SPDX-License-Identifier: Apache-2.0
"""The store contract accepts a dictionary with manners and finds MXNet's aliasing."""

import pytest

from mx_core.errors import MXNetError, ShapeError
from mx_core.testing import KVStoreContract


class Array:
    """What the contract needs of an NDArray."""

    def __init__(self, values):
        self.values = values

    def asnumpy(self):
        return self.values.copy()

    def __iadd__(self, other):
        self.values += other.values
        return self

    def __mul__(self, factor):
        return Array(self.values * factor)


def listed(value):
    return value if isinstance(value, list) else [value]


class Store:
    type, rank, num_workers = "dictionary", 0, 1

    def __init__(self):
        self.table, self.updater = {}, None

    def init(self, keys, values):
        for key, value in zip(listed(keys), listed(values), strict=True):
            if key in self.table:
                raise MXNetError(f"duplicate init of key {key}")
            self.table[key] = value.asnumpy()

    def find(self, key):
        if key not in self.table:
            raise MXNetError(f"key {key} doesn't exist")
        return self.table[key]

    def total(self, values):
        return sum(v.asnumpy() for v in values)

    def push(self, key, values, priority=0):
        stored, total = self.find(key), self.total(listed(values))
        if total.shape != stored.shape:
            raise ShapeError(f"{key}: expected {stored.shape}, got {total.shape}")
        if self.updater is None:
            self.table[key] = total
        else:
            self.updater(key, Array(total), Array(stored))

    def pull(self, keys, out, priority=0):
        keys = listed(keys)
        outs = [[o] for o in out] if len(keys) > 1 else [listed(out)]
        for key, targets in zip(keys, outs, strict=True):
            for target in targets:
                target.values[...] = self.find(key)

    def pushpull(self, key, value, out):
        self.push(key, value)
        self.pull(key, out)

    def broadcast(self, key, value, out):
        self.init(key, value)
        self.pull(key, out)

    def _set_updater(self, updater):
        self.updater = updater


class TestDictionaryStore(KVStoreContract):
    def make_store(self):
        return Store()

    def array(self, values):
        return Array(values.copy())


class Aliasing(Store):
    """Sums into the first array it is given, as MXNet 1.9.1 does with one device."""

    def total(self, values):
        for value in values[1:]:
            values[0].values += value.values
        return values[0].values


class Adding(Store):
    """Adds to the stored value where MXNet replaces it."""

    def push(self, key, values, priority=0):
        self.table[key] = self.find(key) + self.total(listed(values))


@pytest.mark.parametrize(
    ("store", "test"),
    [
        (Aliasing, "pushed_arrays_are_left_alone"),
        (Adding, "without_an_updater_a_push_replaces_the_value_by_the_sum"),
        (Adding, "a_wrong_shape_is_refused"),
    ],
)
def test_faults_are_found(store, test):
    contract = TestDictionaryStore()
    contract.make_store = store
    with pytest.raises((AssertionError, ValueError)):
        getattr(contract, f"test_{test}")()
