# SPDX-License-Identifier: Apache-2.0
"""Contract tests for parameter stores with one worker: the contract of `mx_kvstore.KVStoreBase`.

`Module` calls what is tested here and nothing else.

Source: observed behaviour of MXNet 1.9.1's `local` store. Where that is a trap (a
push that overwrites the pushed array), the better behaviour is tested.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mx_core.errors import MXNetError
from mx_core.testing.expect import check_attributes, check_equal, raises, within

SHAPE = (4, 3)
TIMEOUT = 60.0


class Doubling:
    """An optimizer as stores see them: adds twice the gradient."""

    #: names of keys, which trainings give
    idx2name: ClassVar[dict[Any, str]] = {}

    def create_state_multi_precision(self, key: Any, weight: Any) -> Any:
        """No state."""
        return None

    def update_multi_precision(self, key: Any, weight: Any, grad: Any, state: Any) -> None:
        """The update, in place."""
        weight += grad * 2


class KVStoreContract:
    """Tests of a store: derive, name the class `Test…`, write `make_store` and `array`."""

    #: what every store has
    required = (
        "type", "rank", "num_workers", "broadcast", "pushpull", "is_capable", "set_optimizer",
        "save_optimizer_states", "set_gradient_compression",
    )  # fmt: skip

    def make_store(self) -> Any:
        """A new, empty store."""
        raise NotImplementedError

    def array(self, values: npt.NDArray[Any]) -> Any:
        """An NDArray with these values."""
        raise NotImplementedError

    def optimizer(self) -> Any:
        """An optimizer that adds twice the gradient to a weight."""
        return Doubling()

    def numpy(self, value: Any) -> npt.NDArray[Any]:
        """The values of an NDArray; waits for them."""
        found: npt.NDArray[Any] = value.asnumpy()
        return found

    def _full(self, value: float) -> Any:
        return self.array(np.full(SHAPE, value, np.float32))

    def _expect(self, found: Any, value: float) -> None:
        np.testing.assert_allclose(self.numpy(found), np.full(SHAPE, value), rtol=1e-6)

    def _begun(self, key: Any = "k", value: float = 1) -> Any:
        """A store with one key."""
        store = self.make_store()
        store.broadcast(key, self._full(value), out=self._full(0))
        return store

    def _runs_optimizers(self, store: Any) -> bool:
        return bool(store.is_capable("optimizer"))

    def test_describes_itself(self) -> None:
        store = self.make_store()
        check_attributes(store, self.required)
        assert isinstance(store.type, str) and store.type, f"type: expected a text, got {store.type!r}"
        assert 0 <= store.rank < store.num_workers, (
            f"rank: expected 0 or more and less than num_workers {store.num_workers}, got {store.rank}"
        )
        answer = store.is_capable("no such capability")
        assert answer is False, f"is_capable of a made-up name: expected False, got {answer!r}"

    @within(TIMEOUT)
    def test_broadcast_fills_every_array_given(self) -> None:
        outs = [self._full(0) for _ in range(3)]
        self.make_store().broadcast("k", self._full(4), out=outs)
        for out in outs:
            self._expect(out, 4)

    @within(TIMEOUT)
    def test_keys_may_be_integers_and_lists(self) -> None:
        store = self.make_store()
        keys = [3, 5, 11]
        outs = [self._full(0) for _ in keys]
        store.broadcast(keys, [self._full(k) for k in keys], out=outs)
        for key, out in zip(keys, outs, strict=True):
            self._expect(out, key)
        store.pushpull(keys, [self._full(2 * k) for k in keys], out=outs)
        for key, out in zip(keys, outs, strict=True):
            self._expect(out, 2 * key * store.num_workers)

    @within(TIMEOUT)
    def test_pushpull_gives_the_sum(self) -> None:
        store = self._begun()
        for factor in (1, 3):  # the sum replaces what the key had
            outs = [self._full(0), self._full(0)]
            store.pushpull("k", [self._full(2 * factor), self._full(5 * factor)], out=outs, priority=-1)
            for out in outs:
                self._expect(out, 7 * factor * store.num_workers)

    @within(TIMEOUT)
    def test_pushpull_without_out_fills_the_values(self) -> None:
        store = self._begun()
        values = [self._full(2), self._full(3), self._full(4)]
        store.pushpull("k", values)
        for value in values:
            self._expect(value, 9 * store.num_workers)

    @within(TIMEOUT)
    def test_pushed_arrays_are_left_alone(self) -> None:
        store = self._begun()
        gradients = [self._full(2), self._full(3)]
        out = self._full(0)
        store.pushpull("k", gradients, out=out)
        self._expect(out, 5 * store.num_workers)
        self._expect(gradients[0], 2)
        self._expect(gradients[1], 3)

    @within(TIMEOUT)
    def test_a_key_is_initialised_once(self) -> None:
        store = self._begun()
        with raises(MXNetError, "k"):
            store.broadcast("k", self._full(2), out=self._full(0))

    @within(TIMEOUT)
    def test_an_unknown_key_is_named(self) -> None:
        store = self._begun("known")
        with raises(MXNetError, "missing"):
            store.pushpull("missing", self._full(0), out=self._full(0))

    @within(TIMEOUT)
    def test_a_wrong_shape_is_refused(self) -> None:
        store = self._begun()
        with raises(MXNetError):
            out = self.array(np.zeros((2, 2), np.float32))
            store.pushpull("k", self.array(np.zeros((2, 2), np.float32)), out=out)
            self.numpy(out)

    @within(TIMEOUT)
    def test_an_optimizer_runs_in_the_store_or_is_refused(self) -> None:
        store = self._begun(7, 1)
        if not self._runs_optimizers(store):
            with raises(MXNetError):
                store.set_optimizer(self.optimizer())
            return
        store.set_optimizer(self.optimizer())
        out = self._full(0)
        store.pushpull(7, [self._full(1), self._full(2)], out=out)
        self._expect(out, 1 + 2 * 3 * store.num_workers)
        store.pushpull(7, [self._full(1), self._full(0)], out=out)
        self._expect(out, 1 + 2 * 4 * store.num_workers)

    @within(TIMEOUT)
    def test_optimizer_states_need_an_optimizer(self) -> None:
        store = self._begun()
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "store.states")
            with raises(MXNetError):
                store.save_optimizer_states(name)
            check_equal("files after a refused save_optimizer_states", os.listdir(folder), [])

    def test_gradient_compression_is_taken_or_refused(self) -> None:
        store = self._begun()
        try:
            store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        except MXNetError:
            return
