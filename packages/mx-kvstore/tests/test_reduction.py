# SPDX-License-Identifier: Apache-2.0
"""Sums over devices: values, types, shared memory, and when they run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mx_kvstore
from mx_core import cpu
from mx_core.context import Context
from mx_kvstore.reduction import sum_into
from mx_ndarray import nd, priority, waitall
from mx_ndarray.custom import CustomOp, CustomOpProp, register

TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64"]
LONG = 700_001  # elements: summed in slices


def made(values: Any, device: int = 0) -> Any:
    return nd.array(values, ctx=cpu(device), dtype=values.dtype)


def of_type(dtype: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(TYPES), st.integers(1, 5), st.integers(1, 4),
    st.sampled_from([0, 1, 2, 63, 64, 65, 2047, 2048, 2049, 9000]), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_any_number_of_arrays_of_any_type(dtype: str, sources: int, targets: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = of_type(dtype)
    given_ = [rng.integers(0, 20, n).astype(kind) for _ in range(sources)]
    pushed = [made(values, i) for i, values in enumerate(given_)]
    outs = [nd.full((n,), 3, ctx=cpu(i), dtype=kind) for i in range(targets)]
    sum_into(pushed, outs, 0)
    for out in outs:
        np.testing.assert_array_equal(out.asnumpy(), sum(given_[1:], given_[0]))
    for array, values in zip(pushed, given_, strict=True):
        np.testing.assert_array_equal(array.asnumpy(), values)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_floats_are_rounded_once(dtype: str) -> None:
    kind = of_type(dtype)
    parts = [
        np.array([1], kind),
        *[np.array([ml_dtypes.finfo(kind).eps / 2], kind)] * 4,
    ]  # one by one they would be lost
    out = nd.zeros((1,), dtype=kind)
    sum_into([made(part) for part in parts], [out], 0)
    assert float(out.asnumpy()[0]) == 1 + 2 * float(ml_dtypes.finfo(kind).eps)


def test_integers_wrap_around() -> None:
    out = nd.zeros((2,), dtype="int8")
    sum_into([made(np.array([127, -128], np.int8)), made(np.array([1, -1], np.int8))], [out], 0)
    assert out.asnumpy().tolist() == [-128, 127]


@pytest.mark.parametrize("n", [5, LONG])
def test_a_target_may_be_a_source(n: int) -> None:
    values = [np.arange(n, dtype=np.float32) % 1000, np.full(n, 2, np.float32), np.full(n, 3, np.float32)]
    arrays = [made(each, i) for i, each in enumerate(values)]
    sum_into(arrays, arrays, 0)
    for array in arrays:
        np.testing.assert_array_equal(array.asnumpy(), values[0] + 5)


@pytest.mark.parametrize("n", [100, LONG])
def test_views_of_one_array_that_lie_askew(n: int) -> None:
    values = np.arange(n, dtype=np.float32) % 1000
    array, other = made(values), made(np.ones(n - 1, np.float32))
    sum_into([array[: n - 1], other], [array[1:]], 0)
    np.testing.assert_array_equal(array.asnumpy(), np.concatenate([values[:1], values[:-1] + 1]))


def test_targets_of_another_type_are_converted() -> None:
    outs = [nd.zeros((3,)), nd.zeros((3,), dtype="float16"), nd.zeros((3,), dtype="int32")]
    sum_into([made(np.ones(3, np.float32)), made(np.ones(3, np.float32), 1)], outs, 0)
    assert [out.asnumpy().tolist() for out in outs] == [[2, 2, 2]] * 3


def test_shared_memory_is_summed_too() -> None:
    shared = nd.ones((4,), ctx=Context("cpu_shared", 0))
    out = nd.zeros((4,))
    sum_into([shared, nd.ones((4,))], [out, shared], 0)
    assert out.asnumpy().tolist() == shared.asnumpy().tolist() == [2] * 4


class Gradient(CustomOp):
    """A gradient that comes when `gate` opens, or never."""

    gate = threading.Event()

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        assert self.gate.wait(30)
        if float(in_data[0].asnumpy()[0]) < 0:
            raise ValueError("no gradient today")
        self.assign(out_data[0], req[0], in_data[0] * 2)


@register("kvstore_test_gradient")
class GradientProp(CustomOpProp):
    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Gradient:
        return Gradient()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    Gradient.gate.clear()
    yield Gradient.gate
    Gradient.gate.set()


@pytest.mark.parametrize("kind", ["local", "device"])
def test_calls_return_before_the_gradient_is_there(kind: str, gate: threading.Event) -> None:
    store, outs = mx_kvstore.create(kind), [nd.zeros((3,)), nd.zeros((3,), ctx=cpu(1))]
    store.init([0, 1], [nd.zeros((3,)), nd.zeros((3,))])
    late = nd.Custom(nd.ones((3,)), op_type="kvstore_test_gradient")
    store.pushpull(1, [late, nd.ones((3,), ctx=cpu(1))], out=outs)
    store.pushpull(0, nd.full((3,), 7), out=(other := nd.zeros((3,))))
    assert other.asnumpy().tolist() == [7] * 3  # another key does not wait
    gate.set()
    for out in outs:
        assert out.asnumpy().tolist() == [3] * 3


@pytest.mark.parametrize("n", [4, LONG])
def test_a_failed_gradient_fails_what_is_read_and_not_more(n: int, gate: threading.Event) -> None:
    gate.set()
    store, out = mx_kvstore.create("local"), nd.zeros((n,))
    store.init(["a", "b"], [nd.zeros((n,)), nd.zeros((n,))])
    failed = nd.Custom(nd.full((n,), -1), op_type="kvstore_test_gradient")
    store.pushpull("a", [failed, nd.ones((n,), ctx=cpu(1))], out=out)
    store.pushpull("b", nd.ones((n,)), out=(other := nd.zeros((n,))))
    with pytest.raises(ValueError, match="no gradient today"):
        out.wait_to_read()
    assert (other.asnumpy() == 1).all()
    store.pushpull("a", nd.full((n,), 5), out=out)  # a later sum replaces what failed
    assert (out.asnumpy() == 5).all()


class Witness(CustomOp):
    """Writes down when what it reads is there."""

    seen: ClassVar[list[float]] = []

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.seen.append(float(in_data[0].asnumpy()[0]))
        self.assign(out_data[0], req[0], in_data[0])


@register("kvstore_test_witness")
class WitnessProp(CustomOpProp):
    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Witness:
        return Witness()


def test_of_sums_that_are_ready_the_urgent_come_first(gate: threading.Event) -> None:
    """As in a step: gradients wait for one that is late, and the first layers are needed first."""
    keys, n = list(range(40)), 500_000
    store, outs = mx_kvstore.create("local"), [nd.zeros((n,)) for _ in range(40)]
    store.init(keys, outs)
    late = nd.Custom(nd.zeros((n,)), op_type="kvstore_test_gradient")
    Witness.seen.clear()
    for key in keys:
        store.pushpull(key, [late, nd.full((n,), key, ctx=cpu(1))], out=outs[key], priority=key)
    for key in keys:
        with priority(key):
            nd.Custom(outs[key][:1], op_type="kvstore_test_witness")
    gate.set()
    waitall()
    assert sorted(Witness.seen) == keys
    assert np.mean(Witness.seen[:10]) > np.mean(Witness.seen[-10:]) + 10, Witness.seen


@pytest.mark.timeout(120)
def test_threads_push_long_and_short_keys_at_once() -> None:
    store = mx_kvstore.create("device")
    sizes = {0: 7, 1: 50_000, 2: 1_500_000}
    store.init(list(sizes), [nd.zeros((n,)) for n in sizes.values()])
    failures: list[Any] = []

    def work(thread: int) -> None:
        try:
            for step in range(12):
                key = (thread + step) % 3
                outs = [nd.zeros((sizes[key],), ctx=cpu(i)) for i in range(2)]
                values = [nd.full((sizes[key],), thread * 100 + step + i, ctx=cpu(i)) for i in range(2)]
                store.pushpull(key, values, out=outs, priority=step - 5)
                for out in outs:
                    found = out.asnumpy()
                    assert (found == thread * 200 + 2 * step + 1).all(), (thread, step, found)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


ENGINES = """
import numpy as np, mx_kvstore
from mx_core import cpu, services
from mx_ndarray import nd
assert services.engine().name == {name!r}, services.engine().name
for n in (3, {long}):
    for compressed in (False, True):
        store = mx_kvstore.create("device")
        if compressed:
            store.set_gradient_compression({{"type": "2bit", "threshold": 1}})
        store.init("w", nd.zeros((n,)))
        for _ in range(3):
            outs = [nd.zeros((n,), ctx=cpu(i)) for i in range(3)]
            store.pushpull("w", [nd.ones((n,), ctx=cpu(i)) for i in range(3)], out=outs)
            assert all((out.asnumpy() == 3).all() for out in outs)
print("done")
"""


@pytest.mark.parametrize("name", ["NaiveEngine", "DebugEngine", "ThreadedEngine"])
def test_on_every_engine(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENGINES.format(name=name, long=LONG)],
        env=os.environ | {"MX_ENGINE_TYPE": name},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stdout + done.stderr
