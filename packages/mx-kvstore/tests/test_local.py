# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mx_kvstore
from mx_core.context import Context, cpu
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_core.testing import KVStoreContract
from mx_kvstore import reduction
from mx_ndarray import autograd, nd

SHAPE = (4, 4)
KINDS = pytest.mark.parametrize("kind", ["local", "device"])


class TestLocal(KVStoreContract):
    def make_store(self) -> Any:
        return mx_kvstore.create("local")

    def array(self, values: np.ndarray[Any, Any]) -> Any:
        return nd.array(values, dtype=values.dtype)


class TestDevice(TestLocal):
    def make_store(self) -> Any:
        return mx_kvstore.create("device")


class TestAway(TestDevice):
    """As on devices whose memory native loops cannot reach: copies and operators do it all."""

    @pytest.fixture(autouse=True)
    def away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reduction, "_HOST", frozenset())


def full(value: float, device: int = 0) -> Any:
    return nd.full(SHAPE, value, ctx=cpu(device))


def value_of(store: Any, key: Any) -> float:
    out = full(-1)
    store.pull(key, out=out)
    values = out.asnumpy()
    assert (values == values[0, 0]).all()
    return float(values[0, 0])


@KINDS
def test_init_push_and_pull(kind: str) -> None:
    store = mx_kvstore.create(kind)
    store.init([3, 5], [full(3), full(5)])
    outs = [full(0), full(0)]
    store.pull([3, 5], out=outs)
    assert [float(out.asnumpy()[0, 0]) for out in outs] == [3.0, 5.0]
    store.push(3, [full(2), full(3), full(4)])
    assert value_of(store, 3) == 9
    with pytest.raises(MXNetError, match="3"):
        store.init(3, full(2))
    with pytest.raises(MXNetError, match="7"):
        store.pull(7, out=full(0))
    with pytest.raises(MXNetError, match="7"):
        store.push(7, full(0))
    seen: list[Any] = []

    def update(key: Any, received: Any, stored: Any) -> None:
        seen.append(key)
        stored += received * 2

    store.set_updater(update)
    store.push(5, [full(1), full(2)])
    assert value_of(store, 5) == 5 + 2 * 3 and seen == [5]


@KINDS
def test_arrays_of_several_devices_are_summed(kind: str) -> None:
    store = mx_kvstore.create(kind)
    store.init(3, full(0))
    gradients = [full(i + 1, i) for i in range(4)]
    for _ in range(3):
        store.push(3, gradients)
    outs = [full(0, i) for i in range(4)]
    store.pull(3, out=outs)
    assert [float(out.asnumpy()[0, 0]) for out in outs] == [10.0] * 4
    assert [out.context for out in outs] == [cpu(i) for i in range(4)]
    assert [float(g.asnumpy()[0, 0]) for g in gradients] == [1.0, 2.0, 3.0, 4.0]


def test_device_spreads_keys_over_devices() -> None:
    store = mx_kvstore.create("device")
    keys = [str(i) for i in range(4)]
    store.init(keys, [full(0)] * 4)
    seen = []
    store.set_updater(lambda key, received, stored: seen.append(stored.context))
    for key in keys:
        store.push(key, [full(1, 0), full(1, 1)])
    assert sorted(seen, key=str) == [cpu(0), cpu(0), cpu(1), cpu(1)]


@KINDS
def test_a_key_given_twice_is_summed(kind: str) -> None:
    store = mx_kvstore.create(kind)
    store.init(["a", "b"], [full(0), full(0)])
    store.push(["a", "b", "a"], [full(1), full(2), [full(3), full(4)]])
    assert (value_of(store, "a"), value_of(store, "b")) == (8, 2)


def test_values_are_copied_at_init_and_at_pull() -> None:
    store = mx_kvstore.create()
    start = full(1)
    store.init("k", start)
    start[:] = 5
    out = full(0)
    store.pull("k", out=out)
    out[:] = 7
    assert value_of(store, "k") == 1


def test_only_main_memory_of_this_process_keeps_values_of_a_local_store() -> None:
    store, homes = mx_kvstore.create("local"), {}
    store.set_updater(lambda key, _, stored: homes.update({key: stored.context}))
    for key, where in enumerate((cpu(0), cpu(1), Context("cpu_shared", 0))):
        store.init(key, nd.ones(SHAPE, ctx=where))
        store.push(key, full(2))
    assert homes == {0: cpu(0), 1: cpu(1), 2: cpu(0)}


def test_pushpull_without_out_fills_the_values() -> None:
    store = mx_kvstore.create()
    store.init(1, full(0))
    values = [full(2), full(3)]
    store.pushpull(1, values)
    assert [float(v.asnumpy()[0, 0]) for v in values] == [5, 5]


@KINDS
def test_a_sum_without_an_updater_is_written_to_out_alone(kind: str) -> None:
    store = mx_kvstore.create(kind)
    store.init(1, full(7))
    values = [full(2, 0), full(3, 1)]
    store.sum(1, values)
    assert [float(v.asnumpy()[0, 0]) for v in values] == [5, 5] and value_of(store, 1) == 7
    store.set_updater(lambda key, total, stored: stored.__iadd__(total))
    store.sum(1, values)
    assert value_of(store, 1) == 17


@pytest.mark.parametrize("key", ["weight", 9])
def test_the_updater_gets_the_key_as_given(key: Any) -> None:
    store = mx_kvstore.create()
    store.init(key, full(1))
    seen: list[Any] = []

    def update(name: Any, received: Any, stored: Any) -> None:
        seen.append(name)
        stored += received * 2

    store.set_updater(update)
    store.push(key, full(1))
    store.push(key, [full(1, 0), full(1, 1)])
    assert value_of(store, key) == 7
    assert seen == [key, key] and type(seen[0]) is type(key)


def test_the_store_is_not_recorded() -> None:
    store = mx_kvstore.create()
    weight = full(1)
    weight.attach_grad()
    with autograd.record():
        store.init("w", weight)
        store.push("w", [weight, weight])
        loss = (weight * 3).sum()
    loss.backward()
    assert float(weight.grad.asnumpy()[0, 0]) == 3
    assert value_of(store, "w") == 2


class Momentum:
    """w -= lr · (m = 0.5 m + g)."""

    def create_state_multi_precision(self, key: Any, weight: Any) -> Any:
        return nd.zeros(weight.shape, ctx=weight.context)

    def update_multi_precision(self, key: Any, weight: Any, grad: Any, state: Any) -> None:
        state[:] = state * 0.5 + grad
        weight -= state


def test_an_optimizer_updates_with_its_states() -> None:
    store = mx_kvstore.create()
    store.init([1, 2], [full(10), full(20)])
    store.set_optimizer(Momentum())
    store.push([1, 2], [full(1), full(2)])
    store.push(1, [full(0.5), full(0.5)])
    assert (value_of(store, 1), value_of(store, 2)) == (10 - 1 - 1.5, 18)
    with pytest.raises(MXNetError, match="get_states"):
        store.save_optimizer_states("states")


class StatefulOptimizer:
    def make_updater(self) -> Any:
        class Updater:
            count = 0

            def __call__(self, key: Any, received: Any, stored: Any) -> None:
                self.count += 1

            def get_states(self, dump_optimizer: bool) -> bytes:
                return bytes([self.count, dump_optimizer])

            def set_states(self, states: bytes) -> None:
                self.count = states[0]

        return Updater()


def test_states_are_saved_and_loaded(tmp_path: Path) -> None:
    store = mx_kvstore.create()
    with pytest.raises(MXNetError, match="set_optimizer"):
        store.save_optimizer_states(str(tmp_path / "none"))
    store.init(1, full(0))
    store.set_optimizer(StatefulOptimizer())
    store.push(1, full(0))
    path = tmp_path / "states"
    path.write_bytes(b"old")
    store.save_optimizer_states(str(path), dump_optimizer=True)
    assert path.read_bytes() == bytes([1, 1])
    assert [p.name for p in tmp_path.iterdir()] == ["states"]
    other = mx_kvstore.create()
    other.set_optimizer(StatefulOptimizer())
    other.load_optimizer_states(str(path))
    other.save_optimizer_states(str(path))
    assert path.read_bytes() == bytes([1, 0])


def test_bad_keys_and_values_are_named() -> None:
    store = mx_kvstore.create()
    store.init("w", full(0))
    half = nd.zeros(SHAPE, dtype="float64")
    cases: list[tuple[type[Exception], str, Any]] = [
        (ArgumentError, "duplicate init of key 'w'", lambda: store.init("w", full(0))),
        (ArgumentError, "Mixed key types", lambda: store.init(3, full(0))),
        (ArgumentError, "Mixed key types", lambda: store.pull(3, out=full(0))),
        (ArgumentError, "inconsistent types", lambda: store.init(["a", 3], [full(0)] * 2)),
        (ArgumentError, "'nope' doesn't exist", lambda: store.push("nope", full(0))),
        (ArgumentError, "'nope' doesn't exist", lambda: store.pull("nope", out=full(0))),
        (ArgumentError, "expected 2.*got 1", lambda: store.push(["w", "v"], [full(0)])),
        (ArgumentError, "'w'.*got none", lambda: store.push("w", [])),
        (ArgumentError, "'w'.*got float", lambda: store.push("w", 1.0)),
        (ArgumentError, "None", lambda: store.pull("w")),
        (ArgumentError, "True", lambda: store.init(True, full(0))),
        (ArgumentError, "one value, got 2", lambda: store.init("x", [full(0), full(0)])),
        (ShapeError, r"'w'.*\(4, 4\).*\(2,\)", lambda: store.push("w", nd.zeros((2,)))),
        (ShapeError, r"'w'.*\(4, 4\).*\(2,\)", lambda: store.pull("w", out=nd.zeros((2,)))),
        (DTypeError, "'w'.*float32.*float64", lambda: store.push("w", half)),
        (ArgumentError, "callable", lambda: store.set_updater(3)),
        (ArgumentError, "int without", lambda: store.set_optimizer(3)),
        (MXNetError, "dense", lambda: store.row_sparse_pull("w", out=full(0), row_ids=full(0))),
        (MXNetError, "2bit", lambda: store.set_gradient_compression({"type": "2bit"})),
    ]
    for error, match, call in cases:
        with pytest.raises(error, match=match):
            call()
    assert value_of(store, "w") == 0
    store.init("x", full(1))  # the refused init left nothing behind


def test_an_error_in_a_list_pushes_nothing() -> None:
    store = mx_kvstore.create()
    store.init(["a", "b"], [full(1), full(1)])
    with pytest.raises(ShapeError):
        store.push(["a", "b"], [full(5), nd.zeros((1,))])
    assert value_of(store, "a") == 1


@pytest.mark.timeout(60)
def test_threads_may_share_a_store() -> None:
    store = mx_kvstore.create()
    store.init("k", full(0))

    def update(name: Any, received: Any, stored: Any) -> None:
        stored += received

    store.set_updater(update)

    def work() -> None:
        for _ in range(50):
            store.push("k", full(1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value_of(store, "k") == 200


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["local", "device"]),
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 3), min_size=1, max_size=4))),
)
def test_any_sequence_of_pushes_is_the_last_sum(kind: str, program: list[tuple[int, list[int]]]) -> None:
    store = mx_kvstore.create(kind)
    store.init([0, 1, 2], [full(-1)] * 3)
    expected = {0: -1.0, 1: -1.0, 2: -1.0}
    for key, devices in program:
        store.push(key, [full(10 * i + d, d) for i, d in enumerate(devices)])
        expected[key] = sum(10 * i + d for i, d in enumerate(devices))
    assert {key: value_of(store, key) for key in expected} == expected
