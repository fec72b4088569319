# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mx_kvstore
from mx_core import cpu
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_kvstore.compression import Compression
from mx_ndarray import nd
from testkit import compression as model

KINDS = pytest.mark.parametrize("kind", ["2bit", "1bit"])
floats = st.floats(-4, 4, width=32) | st.sampled_from([0.0, -0.0, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e-45])


def compressed(compression: Compression, gradient: Any, residual: Any) -> Any:
    codes = np.full(compression.words(gradient.size), 0xFFFFFFFF, np.uint32)
    compression.compress(gradient, residual, codes)
    return codes


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["2bit", "1bit"]),
    st.sampled_from([0.5, 0.3, 1.0, 2.0**-20]),
    st.lists(st.tuples(floats, floats), max_size=70),
)
def test_codes_and_residuals_are_those_of_the_definition_bit_by_bit(
    kind: str, threshold: float, pushed: list[tuple[float, float]]
) -> None:
    compression = Compression(kind, threshold)
    residual = np.zeros(len(pushed), np.float32)
    expected = residual.copy()
    for gradient in np.array(pushed, np.float32).reshape(-1, 2).T:
        gradient = np.ascontiguousarray(gradient)
        codes = compressed(compression, gradient, residual)
        values, expected = model.sent(kind, threshold, gradient, expected)
        assert codes.tobytes() == model.packed(kind, threshold, values)
        finite = ~np.isnan(expected)
        assert residual[finite].tobytes() == expected[finite].tobytes()
        assert np.isnan(residual[~finite]).all()
        out = np.full(len(pushed), 7, np.float32)
        compression.expand(codes, out)
        assert (out == values).all()
        compression.expand(codes, out, add=True)
        assert (out == values + values).all()


@KINDS
def test_long_arrays_at_any_address(kind: str) -> None:
    compression, rng = Compression(kind, 0.3), np.random.default_rng(3)
    for offset, n in ((0, 100_000), (1, 99_991), (3, 4097)):
        memory = np.zeros((2, n + 8), np.float32)
        residual, gradient = memory[0, offset : offset + n], memory[1, offset : offset + n]
        expected = residual.copy()
        for _ in range(3):
            gradient[:] = rng.normal(size=n, scale=0.4)
            codes = compressed(compression, gradient, residual)
            values, expected = model.sent(kind, 0.3, gradient, expected)
            assert codes.tobytes() == model.packed(kind, 0.3, values)
            assert residual.tobytes() == expected.tobytes()


@KINDS
def test_what_is_sent_and_what_is_kept_is_what_was_given(kind: str) -> None:
    compression, rng = Compression(kind, 0.5), np.random.default_rng(5)
    residual, given_, got = np.zeros(1000, np.float32), np.zeros(1000), np.zeros(1000, np.float32)
    for _ in range(50):
        gradient = rng.integers(-4, 5, 1000).astype(np.float32) / 8
        given_ += gradient
        compression.expand(compressed(compression, gradient, residual), got, add=True)
    np.testing.assert_array_equal(got + residual, given_)


def test_words_have_sixteen_or_thirty_two_values() -> None:
    assert [Compression("2bit").words(n) for n in (0, 1, 16, 17)] == [0, 1, 1, 2]
    assert [Compression("1bit").words(n) for n in (0, 1, 32, 33)] == [0, 1, 1, 2]


def test_parameters_are_checked() -> None:
    for params, match in [
        ({"type": "3bit"}, "type: expected one of 1bit, 2bit, got '3bit'"),
        ({"type": ["2bit"]}, "type: expected one of"),
        ({"type": "2bit", "threshold": 0}, "threshold: expected a positive number, got 0"),
        ({"type": "2bit", "threshold": -1.0}, "threshold: expected a positive number, got -1"),
        ({"type": "2bit", "threshold": 1e-60}, "threshold: expected a positive number, got 1e-60"),
        ({"type": "2bit", "threshold": 1e60}, "threshold: expected a positive number, got 1e"),
        ({"type": "2bit", "threshold": "x"}, "threshold: expected a positive number, got 'x'"),
        ({"type": "1bit", "threshold": float("nan")}, "threshold: expected a finite number, got nan"),
        ({"type": "2bit", "treshold": 1}, "expected 'type' and 'threshold', got 'treshold'"),
        ({"threshold": 1}, "expected a dict with 'type'"),
        ("2bit", "expected a dict with 'type' and maybe 'threshold', got '2bit'"),
    ]:
        with pytest.raises(ArgumentError, match=match):
            Compression.of(params)
    assert Compression.of({"type": "2bit"}) == Compression("2bit", 0.5)
    assert Compression.of({"type": "1bit", "threshold": -1}).threshold == -1


def test_memory_that_does_not_fit_is_refused() -> None:
    compression = Compression("2bit")
    gradient, residual, codes = np.zeros(40, np.float32), np.zeros(40, np.float32), np.zeros(3, np.uint32)
    with pytest.raises(ShapeError, match="residual: expected 40 elements, got 39"):
        compression.compress(gradient, residual[:39], codes)
    with pytest.raises(ShapeError, match="codes: expected 3 elements, got 2"):
        compression.compress(gradient, residual, codes[:2])
    with pytest.raises(ShapeError, match="codes: expected 4 elements, got 3"):
        compression.expand(codes, np.zeros(49, np.float32))
    with pytest.raises(TypeError):
        compression.compress(gradient.astype(np.float64), residual, codes)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        compression.compress(gradient[::2], residual[:20], codes[:2])
    frozen = residual.copy()
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="residual: expected an array that may be written"):
        compression.compress(gradient, frozen, codes)


def test_other_threads_run_meanwhile() -> None:
    compression, n = Compression("2bit"), 1 << 22
    gradient, residual = np.ones(n, np.float32), np.zeros(n, np.float32)
    codes = np.zeros(compression.words(n), np.uint32)
    done, counted = threading.Event(), 0

    def work() -> None:
        for _ in range(40):
            compression.compress(gradient, residual, codes)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        counted += 1
        time.sleep(0)
    thread.join()
    assert counted > 40  # it was held up at most once by each call


def full(values: Any, device: int = 0) -> Any:
    return nd.array(np.asarray(values, np.float32), ctx=cpu(device))


class TestDeviceStore:
    """Each device has a residual of its own, and what is sent is summed in order."""

    @KINDS
    @pytest.mark.parametrize("n", [1, 7, 1000, 300_001])
    def test_sums_are_those_of_the_definition(self, kind: str, n: int) -> None:
        store, rng = mx_kvstore.create("device"), np.random.default_rng(n)
        store.set_gradient_compression({"type": kind, "threshold": 0.3})
        store.init("w", full(rng.normal(size=n)))
        residuals = [np.zeros(n, np.float32)] * 3
        for _ in range(4):
            gradients = [rng.normal(size=n, scale=0.4).astype(np.float32) for _ in range(3)]
            outs = [full(np.zeros(n), i) for i in range(3)]
            pushed = [full(gradient, i) for i, gradient in enumerate(gradients)]
            store.pushpull("w", pushed, out=outs)
            expected = np.zeros(n, np.float32)
            for i, gradient in enumerate(gradients):
                values, residuals[i] = model.sent(kind, 0.3, gradient, residuals[i])
                expected = expected + values if i else values
                assert pushed[i].asnumpy().tobytes() == gradient.tobytes()
            for out in outs:
                np.testing.assert_array_equal(out.asnumpy(), expected)

    def test_the_optimizer_gets_what_is_sent(self) -> None:
        store = mx_kvstore.create("device")
        store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        store.init("w", full([10, 10, 10]))
        out = full([0, 0, 0])
        store.pull("w", out=out)
        assert out.asnumpy().tolist() == [10, 10, 10]
        store.set_updater(lambda key, grad, weight: weight.__isub__(grad))
        for expected in ([10, 9.5, 10.5], [9.5, 9, 11]):
            store.push("w", full([0.25, 0.75, -0.5]))
            store.pull("w", out=out)
            assert out.asnumpy().tolist() == expected

    def test_the_same_parameters_keep_residuals_and_others_begin_anew(self) -> None:
        store, out = mx_kvstore.create("device"), full([0])
        store.init("w", full([0]))
        taken = []
        for threshold in (0.5, 0.5, 0.25):
            store.set_gradient_compression({"type": "2bit", "threshold": threshold})
            store.pushpull("w", full([0.375]), out=out)
            taken.append(out.asscalar())
        assert taken == [0, 0.5, 0.25]

    def test_what_cannot_be_compressed_is_refused(self) -> None:
        with pytest.raises(MXNetError, match="not supported for kvstore 'local'.*2bit"):
            mx_kvstore.create("local").set_gradient_compression({"type": "2bit"})
        store = mx_kvstore.create("device")
        store.set_gradient_compression({"type": "2bit"})
        half = nd.zeros((2,), dtype="float16")
        store.init("half", half)
        with pytest.raises(DTypeError, match="'half': gradients of float32 are compressed, got float16"):
            store.push("half", half)
        with pytest.raises(DTypeError, match="'half': gradients of float32 are compressed, got float16"):
            store.pushpull("half", half)
