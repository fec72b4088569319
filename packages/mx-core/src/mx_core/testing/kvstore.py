# SPDX-License-Identifier: Apache-2.0
"""What every key-value store must do, seen by one worker.

Source: observed behaviour of MXNet 1.9.1's `local` store; where that differs from good sense (a
push that overwrites the pushed array) good sense is tested.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import MXNetError
from mx_core.testing.expect import raises, within

SHAPE = (4, 3)
TIMEOUT = 60.0


class KVStoreContract:
    """Tests of a store: derive, name the class `Test…`, write `make_store` and `array`."""

    def make_store(self) -> Any:
        """A new, empty store."""
        raise NotImplementedError

    def array(self, values: npt.NDArray[Any]) -> Any:
        """An NDArray with these values."""
        raise NotImplementedError

    def numpy(self, value: Any) -> npt.NDArray[Any]:
        """The values of an NDArray; waits for them."""
        found: npt.NDArray[Any] = value.asnumpy()
        return found

    def _full(self, value: float) -> Any:
        return self.array(np.full(SHAPE, value, np.float32))

    def _pulled(self, store: Any, key: Any) -> npt.NDArray[Any]:
        out = self._full(-1)
        store.pull(key, out=out)
        return self.numpy(out)

    def _expect(self, found: npt.NDArray[Any], value: float) -> None:
        np.testing.assert_allclose(found, np.full(SHAPE, value), rtol=1e-6)

    def test_describes_itself(self) -> None:
        store = self.make_store()
        assert isinstance(store.type, str) and store.type
        assert 0 <= store.rank < store.num_workers

    @within(TIMEOUT)
    def test_pull_gives_what_init_put(self) -> None:
        store = self.make_store()
        store.init("weight", self._full(3))
        self._expect(self._pulled(store, "weight"), 3)

    @within(TIMEOUT)
    def test_keys_may_be_integers_and_lists(self) -> None:
        store = self.make_store()
        keys = [3, 5, 11]
        store.init(keys, [self._full(k) for k in keys])
        outs = [self._full(0) for _ in keys]
        store.pull(keys, out=outs)
        for key, out in zip(keys, outs, strict=True):
            self._expect(self.numpy(out), key)

    @within(TIMEOUT)
    def test_without_an_updater_a_push_replaces_the_value_by_the_sum(self) -> None:
        store = self.make_store()
        store.init("k", self._full(1))
        store.push("k", [self._full(2), self._full(3), self._full(4)])
        self._expect(self._pulled(store, "k"), 9 * store.num_workers)

    @within(TIMEOUT)
    def test_pushed_arrays_are_left_alone(self) -> None:
        store = self.make_store()
        store.init("k", self._full(1))
        gradients = [self._full(2), self._full(3)]
        store.push("k", gradients)
        self._pulled(store, "k")
        self._expect(self.numpy(gradients[0]), 2)
        self._expect(self.numpy(gradients[1]), 3)

    @within(TIMEOUT)
    def test_pull_fills_every_array_given(self) -> None:
        store = self.make_store()
        store.init("k", self._full(5))
        outs = [self._full(0) for _ in range(3)]
        store.pull("k", out=outs)
        for out in outs:
            self._expect(self.numpy(out), 5)

    @within(TIMEOUT)
    def test_pushpull_is_push_then_pull(self) -> None:
        store = self.make_store()
        store.init("k", self._full(1))
        out = self._full(0)
        store.pushpull("k", [self._full(2), self._full(5)], out=out)
        self._expect(self.numpy(out), 7 * store.num_workers)

    @within(TIMEOUT)
    def test_broadcast_is_init_then_pull(self) -> None:
        store = self.make_store()
        outs = [self._full(0), self._full(0)]
        store.broadcast("k", self._full(4), out=outs)
        for out in outs:
            self._expect(self.numpy(out), 4)

    @within(TIMEOUT)
    def test_a_key_is_initialised_once(self) -> None:
        store = self.make_store()
        store.init("k", self._full(1))
        with raises(MXNetError, "k"):
            store.init("k", self._full(2))
        self._expect(self._pulled(store, "k"), 1)

    @within(TIMEOUT)
    def test_an_unknown_key_is_named(self) -> None:
        store = self.make_store()
        store.init("known", self._full(1))
        with raises(MXNetError, "missing"):
            store.pull("missing", out=self._full(0))
        with raises(MXNetError, "missing"):
            store.push("missing", self._full(0))

    @within(TIMEOUT)
    def test_a_wrong_shape_is_refused(self) -> None:
        store = self.make_store()
        store.init("k", self._full(1))
        with raises(MXNetError):
            store.push("k", self.array(np.zeros((2, 2), np.float32)))
            self._pulled(store, "k")

    @within(TIMEOUT)
    def test_an_updater_gets_the_sum_and_the_stored_value(self) -> None:
        store = self.make_store()
        if not hasattr(store, "_set_updater"):
            return
        seen: list[Any] = []

        def update(key: Any, received: Any, stored: Any) -> None:
            seen.append(key)
            stored += received * 2

        store._set_updater(update)
        store.init(7, self._full(1))
        store.push(7, [self._full(1), self._full(2)])
        self._expect(self._pulled(store, 7), 1 + 2 * 3 * store.num_workers)
        assert seen == [7]
