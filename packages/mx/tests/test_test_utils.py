# SPDX-License-Identifier: Apache-2.0
"""The helpers accept what is right and refuse what is wrong."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import mx
from mx import test_utils as utils
from mx.test_utils.statistics import _upper_gamma

pytestmark = pytest.mark.timeout(60)


def variables(*names: str) -> list[mx.sym.Symbol]:
    return [mx.sym.Variable(name) for name in names]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("float32", "float16", (0.01, 0.1)), ("float64", "float32", (1e-4, 1e-3)),
        ("int32", "int32", (0, 0)), ("float64", "float64", (1e-5, 1e-20)), ("bool", "float64", (1e-5, 1e-20)),
    ],
)  # fmt: skip
def test_tolerances_are_those_of_the_coarser_type(a: str, b: str, expected: tuple[float, float]) -> None:
    x, y = np.ones(2, a), mx.nd.ones((2,), dtype=b) if b != "float64" else np.ones(2)
    assert utils.get_tols(x, y, None, None) == expected
    assert utils.get_tols(x, y, 0.5, None) == (0.5, expected[1])
    assert utils.get_tols(x, y, {np.dtype(b): 3.0}, None)[0] == 3.0


def test_comparisons() -> None:
    x = np.array([1, 2.5, np.nan])
    assert not utils.same(x, x) and utils.same(x[:2], mx.nd.array(x[:2]))
    assert utils.almost_equal(x, x, equal_nan=True) and not utils.almost_equal(x, x)
    utils.assert_almost_equal(x[:1], x[:1] + 1e-9)
    utils.assert_almost_equal(np.ones((3, 2)), np.ones((3, 1)))
    with pytest.raises(AssertionError, match=r"p.shape = \(3, 2\) and q.shape = \(3, 1\)"):
        utils.assert_almost_equal(np.ones((3, 2)), np.ones((3, 1)), names=("p", "q"), use_broadcast=False)
    with pytest.raises(AssertionError, match=r"mismatch 50.0+%.*\n  \(1, 0\): a=1, b=3"):
        utils.assert_almost_equal(np.ones((2, 1)), np.array([[1], [3]]))
    with pytest.raises(AssertionError, match="nan"):
        utils.assert_almost_equal(x, np.array([1, 2.5, 0]))
    with pytest.raises(ValueError, match="broadcast"):
        utils.assert_almost_equal(np.ones(3), np.ones(2))
    utils.assert_almost_equal_ignore_nan(x, np.array([1, 2.5, 7]))
    utils.assert_almost_equal_with_err(np.arange(4.0), np.array([0, 1, 2, 9.0]), etol=0.25)
    with pytest.raises(AssertionError):
        utils.assert_almost_equal_with_err(np.arange(4.0), np.array([0, 1, 5, 9.0]), etol=0.25)


def test_forward_and_backward() -> None:
    a, b = variables("a", "b")
    x, y = np.array([[1.0, 2]]), np.array([[3.0, 5]])
    utils.check_symbolic_forward(a * b, {"a": x, "b": y}, [x * y])
    utils.check_symbolic_forward(mx.sym.Group([a + b, a - b]), [x, y], [x + y, x - y])
    with pytest.raises(AssertionError, match="EXPECTED__mul"):
        utils.check_symbolic_forward(a * b, [x, y], [x * y + 1])
    with pytest.raises(ValueError, match=r"expected arrays for \['a', 'b'\], got \['c'\]"):
        utils.check_symbolic_forward(a * b, {"c": x}, [x])
    for req in ("write", "add", {"a": "add", "b": "write"}, ["null", "write"]):
        utils.check_symbolic_backward(a * b, [x, y], [np.ones_like(x) * 2], [2 * y, 2 * x], grad_req=req)
    grads = utils.check_symbolic_backward(a * b, [x, y], None, {"b": x})
    assert list(grads) == ["b"]
    with pytest.raises(AssertionError, match="BACKWARD_a"):
        utils.check_symbolic_backward(a * b, [x, y], None, [x, x])
    np.testing.assert_array_equal(utils.simple_forward(a + 1, a=x), x + 1)


def test_numeric_gradients() -> None:
    a, b = variables("a", "b")
    x, y = np.random.default_rng(0).normal(size=(2, 3, 2))
    utils.check_numeric_gradient(mx.sym.tanh(a) * b, [x, y], dtype=np.float64)
    utils.check_numeric_gradient(mx.sym.tanh(a) * b, [x, y], grad_nodes={"a": "add", "b": "null"}, rtol=1e-2)
    utils.check_numeric_gradient(mx.sym.Group([a * a, a + b]), [x, y], dtype=np.float64)
    utils.check_numeric_gradient(
        mx.sym.BatchNorm(a, fix_gamma=False, name="n"), [x, np.ones(2), np.zeros(2)],
        [np.zeros(2), np.ones(2)], rtol=1e-2, dtype=np.float64,
    )  # fmt: skip
    with pytest.raises(AssertionError, match="NUMERICAL_a"):
        utils.check_numeric_gradient(mx.sym.BlockGrad(a * 2), [x])
    with pytest.raises(ValueError, match="floating type"):
        utils.check_numeric_gradient(a * 2, [x], dtype=np.int32)


def test_numeric_gradients_of_many_elements_are_precise_in_float32() -> None:
    for seed in range(5):
        np.random.seed(seed)
        x, y = variables("x", "y")
        data = [np.random.randn(3, 4, 5), np.random.randn(3, 4, 5)]
        utils.check_numeric_gradient(mx.sym.contrib.quadratic(x, a=0.7, b=0.3, c=0.9), data[:1], atol=1e-3)
        utils.check_numeric_gradient(mx.sym.Group([x * y, x + y]), data, atol=1e-3)


def test_an_operator_of_ones_own() -> None:
    class Cube(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):  # type: ignore[no-untyped-def]
            self.assign(out_data[0], req[0], in_data[0] ** 3)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):  # type: ignore[no-untyped-def]
            self.assign(in_grad[0], req[0], 3 * in_data[0] ** 2 * out_grad[0])

    @mx.operator.register("checked_cube")
    class CubeProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):  # type: ignore[no-untyped-def]
            return Cube()

    net = mx.sym.Custom(mx.sym.Variable("a"), op_type="checked_cube")
    utils.check_numeric_gradient(net, [np.random.rand(3, 2) + 0.5], dtype=np.float64)


def test_consistency_over_types() -> None:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    places = [{"ctx": mx.cpu(), "data": (2, 4), "type_dict": {"data": t}} for t in ("float32", "float64")]
    truth = utils.check_consistency(net, places)
    assert set(truth) == {"fc_output", "data", "fc_weight", "fc_bias"}
    assert truth["fc_output"].dtype == np.float64
    wrong = {"fc_output": truth["fc_output"] + 1}
    with pytest.raises(AssertionError, match="fc_output"):
        utils.check_consistency(net, places, ground_truth=wrong)
    assert utils.check_consistency(net, places, ground_truth=wrong, raise_on_err=False) is not None
    assert 0 < utils.check_speed(net, N=2, data=(2, 4)) < 10
    assert 0 < utils.check_speed(net, N=2, typ="forward", data=(2, 4)) < 10


def test_optimizers_are_compared() -> None:
    sgd = [mx.optimizer.SGD(learning_rate=rate, momentum=0.9) for rate in (0.1, 0.1, 0.2)]
    utils.compare_optimizer(sgd[0], sgd[1], (3, 2), "float32")
    with pytest.raises(AssertionError):
        utils.compare_optimizer(sgd[0], sgd[2], [(3, 2), (2,)], "float32", ntensors=2)


def test_random_arrays() -> None:
    assert utils.random_arrays((2, 3)).dtype == np.float32
    assert [x.shape for x in utils.random_arrays((), (2,))] == [(), (2,)]
    assert all(1 <= n <= 4 for n in utils.rand_shape_nd(50, 4))
    assert len(utils.rand_shape_2d()) == 2 and len(utils.rand_shape_3d(2, 3, 4)) == 3
    assert 0 in utils.rand_shape_nd(200, 3, allow_zero_size=True)
    assert utils.rand_ndarray((2, 2), dtype="float64", modifier_func=abs).asnumpy().min() >= 0
    with pytest.raises(ValueError, match="stype"):
        utils.rand_ndarray((2, 2), "csr")
    x = mx.nd.zeros((4,))
    assert utils.same_array(x, x[:]) and not utils.same_array(x, x.copy())
    np.testing.assert_array_equal(utils.collapse_sum_like(np.ones((2, 3)), (3,)), [2, 2, 2])
    np.testing.assert_array_equal(utils.np_reduce(np.ones((2, 3)), (0, 1), True, np.sum), [[6]])
    assert utils.create_2d_tensor(2, 3).asnumpy().tolist() == [[0, 0, 0], [1, 1, 1]]


def test_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_PROBE", "before")
    with utils.environment("MX_PROBE", "inside"), utils.environment({"MX_OTHER": "1"}):
        assert (os.environ["MX_PROBE"], os.environ["MX_OTHER"]) == ("inside", "1")
    assert os.environ["MX_PROBE"] == "before" and "MX_OTHER" not in os.environ
    utils.assert_exception(int, ValueError, "x")
    with pytest.raises(AssertionError, match="raised no ValueError"):
        utils.assert_exception(int, ValueError, "1")
    utils.set_default_context(mx.cpu(1))
    assert utils.default_context() == mx.cpu(1)
    utils.set_default_context(mx.cpu())
    assert mx.nd.zeros((1,)).context == mx.cpu() and list(utils.list_gpus()) == list(range(mx.num_gpus()))
    attempts = []

    @utils.retry(3)
    def unsteady() -> None:
        attempts.append(1)
        assert len(attempts) == 3

    unsteady()


def test_samples_follow_their_distribution() -> None:
    assert _upper_gamma(0.5, 1.9207) == pytest.approx(0.05, rel=1e-3)  # χ² of 3.841, one degree
    assert _upper_gamma(10, 9.1) == pytest.approx(0.57, abs=0.01)
    mx.random.seed(5)
    np.random.seed(5)

    def normal(n: int) -> np.ndarray:
        return mx.nd.random.normal(2, 3, (n,)).asnumpy()

    assert utils.mean_check(normal, 2, 3, 20000) and utils.var_check(normal, 3, 20000)
    assert not utils.mean_check(normal, 2.5, 3, 20000) and not utils.var_check(normal, 3.5, 20000)
    buckets, probs = utils.gen_buckets_probs_with_ppf(lambda q: q, 5)
    utils.verify_generator(lambda n: mx.nd.random.uniform(shape=(n,)).asnumpy(), buckets, probs, 20000)
    with pytest.raises(AssertionError, match="do not follow"):
        utils.verify_generator(lambda n: np.random.rand(n) ** 2, buckets, probs, 20000)
    coin = utils.chi_square_check(lambda n: np.arange(n) % 2, [0, 1], [0.5, 0.5], 1000)
    assert coin[0] == 1.0 and coin[1].tolist() == [500, 500]


@pytest.mark.parametrize("check", [utils.assert_almost_equal, utils.assert_almost_equal_with_err])
def test_shapes_that_do_not_broadcast_are_named(check: Any) -> None:
    with pytest.raises(ValueError, match=r"a.shape = \(2,\) and b.shape = \(3,\) do not broadcast"):
        check(np.zeros(2), mx.nd.zeros((3,)))
