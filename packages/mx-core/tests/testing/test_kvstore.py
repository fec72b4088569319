# SPDX-License-Identifier: Apache-2.0
"""The store contract accepts a dictionary with manners and finds MXNet's aliasing."""

from pathlib import Path

import numpy as np
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

    def is_capable(self, capability):
        return capability == "optimizer"

    def find(self, key):
        if key not in self.table:
            raise MXNetError(f"key {key} doesn't exist")
        return self.table[key]

    def check_new(self, key):
        if key in self.table:
            raise MXNetError(f"duplicate init of key {key}")

    def broadcast(self, keys, values, out, priority=0):
        outs = out if isinstance(keys, list) else [out]
        for key in listed(keys):
            self.check_new(key)
        for key, value, targets in zip(listed(keys), listed(values), outs, strict=True):
            self.table[key] = value.asnumpy()
            self.copy(key, targets)

    def barrier(self):
        pass

    def copy(self, key, targets):
        for target in listed(targets):
            target.values[...] = self.find(key)

    def sum(self, *arguments, **named):
        self.pushpull(*arguments, **named)

    def pushpull(self, keys, values, out=None, priority=0):
        if not isinstance(keys, list):
            keys, values, out = [keys], [values], None if out is None else [out]
        grouped = {}
        for key, value, targets in zip(keys, values, values if out is None else out, strict=True):
            pushed, pulled = grouped.setdefault(key, ([], []))
            pushed += listed(value)
            pulled += listed(targets)
        self.check(grouped)
        for key, (pushed, pulled) in grouped.items():
            self.push(key, pushed)
            self.copy(key, pulled)

    def check(self, grouped):
        for key, (pushed, _) in grouped.items():
            stored = self.find(key)
            for array in pushed:
                if (array.values.shape, array.values.dtype) != (stored.shape, stored.dtype):
                    raise ShapeError(f"{key}: expected {stored.shape}, got {array.values.shape}")

    def total(self, values):
        return sum(v.asnumpy() for v in values)

    def push(self, key, values):
        stored, total = self.find(key), self.total(values)
        if self.updater is None:
            self.table[key] = total
        else:
            self.updater(key, Array(total), Array(stored))

    def set_optimizer(self, optimizer):
        if hasattr(optimizer, "make_updater"):
            self.updater = optimizer.make_updater()
        else:
            self.updater = lambda key, grad, weight: optimizer.update_multi_precision(key, weight, grad, None)

    def save_optimizer_states(self, fname):
        if self.updater is None:
            raise MXNetError("no states")
        Path(fname).write_bytes(self.updater.get_states())

    def load_optimizer_states(self, fname):
        self.updater.set_states(Path(fname).read_bytes())

    def set_gradient_compression(self, params):
        raise MXNetError(f"not here: {params}")

    def init(self, *arguments, **named):
        raise MXNetError("use pushpull")

    pull = init

    def row_sparse_pull(self, key, out, row_ids):
        raise MXNetError(f"key {key} has no rows")


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


class Late(Store):
    """Reads what is not urgent at the next call, when its owner may have changed it."""

    def __init__(self):
        super().__init__()
        self.late = []

    def pushpull(self, *arguments, priority=0, **named):
        for waiting, more in self.late:
            super().pushpull(*waiting, **more)
        self.late = [(arguments, named)] if priority < 0 else []
        if not self.late:
            super().pushpull(*arguments, **named)


class Lossy(Store):
    """Drops what is not urgent."""

    def pushpull(self, *arguments, priority=0, **named):
        if priority >= 0:
            super().pushpull(*arguments, **named)


class Careless(Store):
    """Takes what does not fit."""

    def check(self, grouped):
        pass


class Casting(Store):
    """Takes any type for any other."""

    def check(self, grouped):
        for key, (pushed, _) in grouped.items():
            for array in pushed:
                array.values = array.values.astype(self.find(key).dtype)


class Hasty(Store):
    """Sends what has no priority given first."""

    def pushpull(self, keys, values, out=None, priority=-1):
        super().pushpull(keys, values, out, priority)


class Piecewise(Store):
    """Works on the good keys of a list before it finds the bad one, and on a key as often as it is named."""

    def pushpull(self, keys, values, out=None, priority=0):
        if not isinstance(keys, list):
            keys, values, out = [keys], [values], None if out is None else [out]
        for key, value, targets in zip(keys, values, values if out is None else out, strict=True):
            super().pushpull(key, value, targets)


class Rounding(Store):
    """Sums in eight bits."""

    def total(self, values):
        return super().total(values).astype(np.int8).astype(values[0].values.dtype) + (
            values[0].values.ndim == 3
        )


class Early(Store):
    """Runs an optimizer for the keys that it has by then."""

    def set_optimizer(self, optimizer):
        super().set_optimizer(optimizer)
        known = set(self.table)
        run = self.updater
        self.updater = lambda key, grad, weight: run(key, grad, weight) if key in known else None


class Forgetful(Store):
    """Loads no states."""

    def load_optimizer_states(self, fname):
        pass


class Polite(Store):
    """Takes every kind of compression."""

    def set_gradient_compression(self, params):
        pass


class Unsent(Store):
    """Says that it compresses, and does not."""

    def set_gradient_compression(self, params):
        if params["type"] == "3bit":
            raise MXNetError("3bit")


class Half(Store):
    """Has init without push and pull."""

    def init(self, keys, values):
        pass


class Unnamed(Store):
    """Has several workers and a name that does not say so."""

    num_workers = 2


@pytest.mark.parametrize(
    ("store", "test"),
    [
        (Aliasing, "pushed_arrays_are_left_alone"),
        (Adding, "pushpull_gives_the_sum"),
        (Careless, "a_wrong_shape_is_refused"),
        (Foreign, "an_unknown_key_is_named"),
        (First, "broadcast_fills_every_array_given"),
        (First, "pushpull_without_out_fills_the_values"),
        (Silent, "an_optimizer_runs_in_the_store_or_is_refused"),
        (Late, "calls_of_a_key_take_effect_in_their_order"),
        (Lossy, "priorities_change_no_result"),
        (Hasty, "what_has_no_priority_given_has_0"),
        (Casting, "a_wrong_type_is_refused"),
        (Piecewise, "a_refused_list_does_nothing"),
        (Piecewise, "a_key_that_is_given_twice_has_all_its_arrays"),
        (Rounding, "shapes_of_several_ranks"),
        (Early, "keys_may_come_after_the_optimizer"),
        (Forgetful, "optimizer_states_go_on_from_a_file"),
        (Polite, "gradient_compression_is_taken_or_refused"),
        (Unsent, "gradient_compression_is_taken_or_refused"),
        (Half, "push_and_pull_are_halves_of_pushpull_or_refused"),
        (Unnamed, "describes_itself"),
    ],
)
def test_faults_are_found(store, test):
    contract = TestDictionaryStore()
    contract.make_store = store
    with pytest.raises((AssertionError, ValueError, KeyError, MXNetError)):
        getattr(contract, f"test_{test}")()
