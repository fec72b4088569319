# SPDX-License-Identifier: Apache-2.0
"""Contract tests for parameter stores: the contract of `mx_kvstore.KVStoreBase`.

`Module` and Gluon's `Trainer` call what is tested here and nothing else. With several workers, each runs the tests, in
the same order.

Source: observed behaviour of MXNet 1.9.1's `local` store. Where that is a trap (a
push that overwrites the pushed array), the better behaviour is tested.
"""

from __future__ import annotations

import ast
import inspect
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


class Counting:
    """An optimizer with states: the n-th update of a key adds n times the gradient."""

    idx2name: ClassVar[dict[Any, str]] = {}

    class Updater:
        """What the store calls."""

        def __init__(self) -> None:
            self.counts: dict[Any, int] = {}

        def __call__(self, key: Any, grad: Any, weight: Any) -> None:
            """The update, in place."""
            self.counts[key] = self.counts.get(key, 0) + 1
            weight += grad * self.counts[key]

        def get_states(self, dump_optimizer: bool = False) -> bytes:
            """The counts."""
            return repr(sorted(self.counts.items())).encode()

        def set_states(self, states: bytes | bytearray) -> None:
            """Takes what `get_states` gave."""
            self.counts = dict(ast.literal_eval(bytes(states).decode()))

    def make_updater(self) -> Counting.Updater:
        """A new one, which has counted nothing."""
        return self.Updater()


class KVStoreContract:
    """Tests of a store: derive, name the class `Test…`, write `make_store` and `array`."""

    #: what every store has
    required = (
        "type", "rank", "num_workers", "broadcast", "pushpull", "sum", "is_capable", "barrier", "set_optimizer",
        "save_optimizer_states", "load_optimizer_states", "set_gradient_compression", "init", "push", "pull",
        "row_sparse_pull",
    )  # fmt: skip

    def make_store(self) -> Any:
        """A new, empty store."""
        raise NotImplementedError

    def array(self, values: npt.NDArray[Any]) -> Any:
        """An NDArray with these values, of their type."""
        raise NotImplementedError

    def optimizer(self) -> Any:
        """An optimizer that adds twice the gradient to a weight."""
        return Doubling()

    def counting(self) -> Any:
        """An optimizer with states, which adds the gradient to a weight once, then twice, then three times."""
        return Counting()

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
        assert store.num_workers == 1 or "dist" in store.type, (
            f"type: expected 'dist' in that of a store with {store.num_workers} workers, got {store.type!r}"
        )
        assert 0 <= store.rank < store.num_workers, (
            f"rank: expected 0 or more and less than num_workers {store.num_workers}, got {store.rank}"
        )
        answer = store.is_capable("no such capability")
        assert answer is False, f"is_capable of a made-up name: expected False, got {answer!r}"

    def test_what_has_no_priority_given_has_0(self) -> None:
        store = self.make_store()
        for call in ("broadcast", "pushpull", "push", "pull"):
            given = inspect.signature(getattr(store, call)).parameters.get("priority")
            default = 0 if given is None else given.default
            assert default == 0, f"{call}: expected 0 as the default of priority, got {default!r}"

    @within(TIMEOUT)
    def test_broadcast_fills_every_array_given(self) -> None:
        outs = [self._full(0) for _ in range(3)]
        store = self.make_store()
        store.broadcast("k", self._full(4 + store.rank), out=outs)  # all get what rank 0 has
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
    def test_sum_gives_the_sum_and_may_keep_it(self) -> None:
        store = self._begun()
        outs = [self._full(0), self._full(0)]
        store.sum("k", [self._full(2), self._full(5)], out=outs, priority=-1)
        values = [self._full(1), self._full(2)]
        store.sum(["k"], [values])  # in place
        out = self._full(0)
        store.pushpull("k", self._full(4), out=out)
        for array, value in ((outs[0], 7), (outs[1], 7), (values[0], 3), (values[1], 3), (out, 4)):
            self._expect(array, value * store.num_workers)
        with raises(MXNetError, "missing"):
            store.sum("missing", self._full(0))

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
    def test_a_wrong_type_is_refused(self) -> None:
        store = self._begun()
        with raises(MXNetError, "k"):
            store.pushpull("k", self.array(np.zeros(SHAPE, np.float64)), out=self._full(0))

    @within(TIMEOUT)
    def test_a_refused_list_does_nothing(self) -> None:
        store = self.make_store()
        store.broadcast(["a", "b"], [self._full(1), self._full(2)], out=[self._full(0), self._full(0)])
        out = self._full(7)
        with raises(MXNetError, "missing"):
            store.pushpull(["a", "missing"], [self._full(5), self._full(5)], out=[out, self._full(0)])
        self._expect(out, 7)
        with raises(MXNetError, "b"):
            store.broadcast(["c", "b"], [self._full(5), self._full(5)], out=[out, self._full(0)])
        self._expect(out, 7)
        store.broadcast("c", self._full(3), out=out)
        self._expect(out, 3)

    @within(TIMEOUT)
    def test_a_key_that_is_given_twice_has_all_its_arrays(self) -> None:
        store = self.make_store()
        store.broadcast(["a", "b"], [self._full(1), self._full(2)], out=[self._full(0), self._full(0)])
        outs = [self._full(0) for _ in range(3)]
        store.pushpull(
            ["a", "b", "a"], [self._full(1), self._full(2), [self._full(4), self._full(8)]], out=outs
        )
        for out, value in zip(outs, (13, 2, 13), strict=True):
            self._expect(out, value * store.num_workers)

    @within(TIMEOUT)
    def test_calls_of_a_key_take_effect_in_their_order(self) -> None:
        store = self._begun("k")
        taken = []
        for i in range(20):
            value, out = self._full(i), self._full(-1)
            store.pushpull("k", value, out=out, priority=i if i % 2 else -i)
            value += self._full(1000)  # the caller's again
            taken.append(out)
        for i, out in enumerate(taken):
            self._expect(out, i * store.num_workers)

    @within(TIMEOUT)
    def test_priorities_change_no_result(self) -> None:
        store = self.make_store()
        keys = list(range(30))
        outs = [self._full(0) for _ in keys]
        store.broadcast(keys, [self._full(0) for _ in keys], out=outs)
        for key in keys:
            store.pushpull(key, [self._full(key), self._full(1)], out=outs[key], priority=(key * 7) % 11 - 5)
        for key in keys:
            self._expect(outs[key], (key + 1) * store.num_workers)

    @within(TIMEOUT)
    def test_shapes_of_several_ranks(self) -> None:
        store = self.make_store()
        for key, shape in enumerate([(1,), (1031,), (2, 3, 5), (1, 1, 1, 1)]):
            ramp = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            out = self.array(np.zeros(shape, np.float32))
            store.broadcast(key, self.array(ramp), out=out)
            np.testing.assert_array_equal(self.numpy(out), ramp)
            store.pushpull(key, [self.array(ramp), self.array(ramp + 1)], out=out)
            np.testing.assert_array_equal(self.numpy(out), (2 * ramp + 1) * store.num_workers)

    @within(TIMEOUT)
    def test_types_are_summed_or_refused(self) -> None:
        for key, dtype in enumerate((np.float64, np.float16, np.int32)):
            store = self.make_store()
            ramp = (np.arange(12) - 5).astype(dtype).reshape(SHAPE)
            out = self.array(np.zeros(SHAPE, dtype))
            try:
                store.broadcast(key, self.array(ramp), out=out)
                store.pushpull(key, [self.array(ramp), self.array(ramp * 2)], out=out)
            except MXNetError as error:
                assert str(key) in str(error), (
                    f"{dtype.__name__} of key {key} is refused without the key: {error}"
                )
            else:
                np.testing.assert_array_equal(self.numpy(out), ramp * 3 * store.num_workers)

    @within(TIMEOUT)
    def test_a_barrier_ends(self) -> None:
        self.make_store().barrier()

    @within(TIMEOUT)
    def test_push_and_pull_are_halves_of_pushpull_or_refused(self) -> None:
        store = self.make_store()
        try:
            store.init("k", self._full(1))
        except MXNetError:
            for call in (store.push, store.pull):
                with raises(MXNetError):
                    call("k", self._full(1))
            return
        outs = [self._full(0), self._full(0)]
        store.pull("k", out=outs)
        for out in outs:
            self._expect(out, 1)
        store.push("k", [self._full(2), self._full(3)])
        store.pull("k", out=outs)
        for out in outs:
            self._expect(out, 5 * store.num_workers)
        with raises(MXNetError, "missing"):
            store.push("missing", self._full(0))
        with raises(MXNetError, "missing"):
            store.pull("missing", out=self._full(0))

    @within(TIMEOUT)
    def test_rows_of_dense_values_are_refused(self) -> None:
        store = self._begun("k")
        with raises(MXNetError, "k"):
            store.row_sparse_pull("k", out=self._full(0), row_ids=self.array(np.zeros(1, np.int64)))

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
    def test_keys_may_come_after_the_optimizer(self) -> None:
        store = self.make_store()
        if not self._runs_optimizers(store):
            return
        store.set_optimizer(self.optimizer())
        out = self._full(0)
        store.broadcast("k", self._full(1), out=out)
        self._expect(out, 1)
        store.pushpull("k", self._full(2), out=out)
        self._expect(out, 1 + 2 * 2 * store.num_workers)

    @within(TIMEOUT)
    def test_optimizer_states_go_on_from_a_file(self) -> None:
        if not self._runs_optimizers(self.make_store()):
            return
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "store.states")
            for counted, saved in ((1, True), (2, False)):
                store, out = self._begun("k", 0), self._full(0)
                store.set_optimizer(self.counting())
                if not saved:
                    store.load_optimizer_states(name)
                store.pushpull("k", self._full(1), out=out)
                self._expect(out, counted * store.num_workers)
                if saved:
                    store.save_optimizer_states(name)

    @within(TIMEOUT)
    def test_optimizer_states_need_an_optimizer(self) -> None:
        store = self._begun()
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "store.states")
            with raises(MXNetError):
                store.save_optimizer_states(name)
            check_equal("files after a refused save_optimizer_states", os.listdir(folder), [])

    @within(TIMEOUT)
    def test_gradient_compression_is_taken_or_refused(self) -> None:
        store = self.make_store()
        with raises(MXNetError, "3bit"):
            store.set_gradient_compression({"type": "3bit"})
        try:
            store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        except MXNetError:
            return
        out = self._full(9)
        store.broadcast("k", self._full(0.125), out=out)
        self._expect(out, 0.125)  # first values are not compressed
        for step, sent in enumerate((0, 0.5, 0, 0.5)):  # the rest is sent later
            store.pushpull("k", self._full(0.25), out=out)
            found = self.numpy(out)
            assert (found == sent * store.num_workers).all(), (
                f"push {step} of 0.25 with 2 bits and threshold 0.5: expected {sent * store.num_workers}, got {found}"
            )
