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
        self.table, self.optimizer = {}, None

    def is_capable(self, capability):
        return capability == "optimizer"

    def find(self, key):
        if key not in self.table:
            raise MXNetError(f"key {key} doesn't exist")
        return self.table[key]

    def broadcast(self, keys, values, out, priority=0):
        outs = out if isinstance(keys, list) else [out]
        for key, value, targets in zip(listed(keys), listed(values), outs, strict=True):
            if key in self.table:
                raise MXNetError(f"duplicate init of key {key}")
            self.table[key] = value.asnumpy()
            self.copy(key, targets)

    def copy(self, key, targets):
        for target in listed(targets):
            target.values[...] = self.find(key)

    def pushpull(self, keys, values, out=None, priority=0):
        if not isinstance(keys, list):
            keys, values, out = [keys], [values], None if out is None else [out]
        for key, value, targets in zip(keys, values, values if out is None else out, strict=True):
            self.push(key, listed(value))
            self.copy(key, targets)

    def total(self, values):
        return sum(v.asnumpy() for v in values)

    def push(self, key, values):
        stored, total = self.find(key), self.total(values)
        if total.shape != stored.shape:
            raise ShapeError(f"{key}: expected {stored.shape}, got {total.shape}")
        if self.optimizer is None:
            self.table[key] = total
        else:
            self.optimizer.update_multi_precision(key, Array(stored), Array(total), None)

    def set_optimizer(self, optimizer):
        self.optimizer = optimizer

    def save_optimizer_states(self, fname):
        raise MXNetError("no states")

    def set_gradient_compression(self, params):
        raise MXNetError("not here")


class Plain(Store):
    """Leaves optimizers to whoever uses it."""

    def is_capable(self, capability):
        return False

    def set_optimizer(self, optimizer):
        raise MXNetError("not here")


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


class TestPlainStore(TestDictionaryStore):
    def make_store(self):
        return Plain()


class Adding(Store):
    """Adds to the stored value where MXNet replaces it."""

    def push(self, key, values):
        self.table[key] = self.find(key) + self.total(values)


class Foreign(Store):
    """Raises what is no error of mx."""

    def find(self, key):
        return self.table[key]


class First(Store):
    """Copies to the first array only."""

    def copy(self, key, targets):
        super().copy(key, listed(targets)[0])


class Silent(Plain):
    """Takes an optimizer and forgets it."""

    def set_optimizer(self, optimizer):
        pass


@pytest.mark.parametrize(
    ("store", "test"),
    [
        (Aliasing, "pushed_arrays_are_left_alone"),
        (Adding, "pushpull_gives_the_sum"),
        (Adding, "a_wrong_shape_is_refused"),
        (Foreign, "an_unknown_key_is_named"),
        (First, "broadcast_fills_every_array_given"),
        (First, "pushpull_without_out_fills_the_values"),
        (Silent, "an_optimizer_runs_in_the_store_or_is_refused"),
    ],
)
def test_faults_are_found(store, test):
    contract = TestDictionaryStore()
    contract.make_store = store
    with pytest.raises((AssertionError, ValueError, KeyError)):
        getattr(contract, f"test_{test}")()
