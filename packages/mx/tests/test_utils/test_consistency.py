# SPDX-License-Identifier: Apache-2.0
"""One symbol in several types, optimizers against each other, and speed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mx
from mx import test_utils as utils

NET = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")


def places(*types: str) -> list[dict[str, Any]]:
    return [{"ctx": mx.cpu(), "data": (2, 4), "type_dict": {"data": t}} for t in types]


def test_runs_are_compared_with_the_most_precise() -> None:
    truth = utils.check_consistency(NET, places("float32", "float64"))
    assert set(truth) == {"fc_output", "data", "fc_weight", "fc_bias"}
    assert truth["fc_output"].dtype == np.float64
    wrong = {"fc_output": truth["fc_output"] + 1}
    with pytest.raises(AssertionError, match="fc_output"):
        utils.check_consistency(NET, places("float32", "float64"), ground_truth=wrong)
    with pytest.raises(ValueError, match="at least two runs"):
        utils.check_consistency(NET, places("float32"))


def test_differences_may_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    truth = utils.check_consistency(NET, places("float32", "float64"))
    wrong = {"fc_output": truth["fc_output"] + 1}
    assert utils.check_consistency(NET, places("float32"), ground_truth=wrong, raise_on_err=False) == wrong
    assert "fc_output: TRUTH of cpu(0)" in capsys.readouterr().out


def test_inference_has_no_gradients() -> None:
    assert set(utils.check_consistency(NET, places("float32", "float64"), grad_req="null")) == {"fc_output"}


def test_gradients_are_the_sums_of_one_run() -> None:
    once = utils.check_consistency(NET, places("float64", "float64"), arg_params=ONES)
    added = utils.check_consistency(NET, places("float64", "float64"), arg_params=ONES, grad_req="add")
    np.testing.assert_array_equal(once["fc_weight"].asnumpy(), added["fc_weight"].asnumpy())


ONES = {"data": np.ones((2, 4)), "fc_weight": np.ones((3, 4)), "fc_bias": np.ones(3)}


def test_given_and_drawn_arguments() -> None:
    truth = utils.check_consistency(NET, places("float64", "float64"), arg_params=ONES)
    assert truth["fc_output"].asnumpy().tolist() == [[5.0] * 3] * 2
    identity = mx.sym.identity(mx.sym.Variable("data"), name="same")
    wide = [{"ctx": mx.cpu(), "data": (4000,)}] * 2
    uniform = utils.check_consistency(identity, wide, scale=3, use_uniform=True)["same_output"].asnumpy()
    assert -3 <= uniform.min() < -2.9 and 2.9 < uniform.max() < 3 and abs(uniform.std() - 3**0.5) < 0.1
    normal = utils.check_consistency(identity, wide, scale=3)["same_output"].asnumpy()
    assert abs(normal.std() - 3) < 0.2 and normal.max() > 5


def test_states_are_zero_or_given() -> None:
    norm = mx.sym.BatchNorm(
        mx.sym.Variable("data"), fix_gamma=False, name="n", use_global_stats=True, eps=1.0
    )
    runs = [{"ctx": mx.cpu(), "data": (2, 3)}] * 2
    data = {"data": np.full((2, 3), 6.0), "n_gamma": np.ones(3), "n_beta": np.zeros(3)}
    found = utils.check_consistency(norm, runs, arg_params=data)["n_output"].asnumpy()
    np.testing.assert_allclose(found, 6.0, rtol=1e-6)
    states = {"n_moving_mean": np.full(3, 2.0), "n_moving_var": np.full(3, 3.0)}
    found = utils.check_consistency(norm, runs, arg_params=data, aux_params=states)["n_output"].asnumpy()
    np.testing.assert_allclose(found, 2.0, rtol=1e-6)


def test_speed() -> None:
    assert 0 < utils.check_speed(NET, N=2, data=(2, 4)) < 10
    assert 0 < utils.check_speed(NET, N=2, typ="forward", data=(2, 4)) < 10
    assert 0 < utils.check_speed(NET, ONES, N=2) < 10
    with pytest.raises(ValueError, match="'whole' or 'forward', got 'back'"):
        utils.check_speed(NET, typ="back", data=(2, 4))


class Runs(mx.operator.CustomOp):
    """Counts its runs."""

    forwards = backwards = 0

    def forward(self, is_train, req, in_data, out_data, aux):  # type: ignore[no-untyped-def]
        Runs.forwards += 1
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):  # type: ignore[no-untyped-def]
        Runs.backwards += 1
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("counted_runs")
class RunsProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):  # type: ignore[no-untyped-def]
        return Runs()


@pytest.mark.parametrize(("typ", "forwards", "backwards"), [("whole", 7, 6), ("forward", 7, 0)])
def test_speed_is_that_of_so_many_runs(typ: str, forwards: int, backwards: int) -> None:
    Runs.forwards = Runs.backwards = 0
    net = mx.sym.Custom(mx.sym.Variable("data"), op_type="counted_runs")
    utils.check_speed(net, N=5, typ=typ, data=(2,))
    assert (Runs.forwards, Runs.backwards) == (forwards, backwards)


def test_optimizers_are_compared() -> None:
    sgd = [mx.optimizer.SGD(learning_rate=rate, momentum=0.9) for rate in (0.1, 0.1, 0.2)]
    utils.compare_optimizer(sgd[0], sgd[1], (3, 2), "float32")
    with pytest.raises(AssertionError):
        utils.compare_optimizer(sgd[0], sgd[2], [(3, 2), (2,)], "float32", ntensors=2)
    with pytest.raises(ValueError, match="'default' storage, got 'default', 'row_sparse'"):
        utils.compare_optimizer(sgd[0], sgd[1], (3, 2), "float32", g_stype="row_sparse")


class Kept(mx.optimizer.SGD):
    """Moves no weight and leaves a state."""

    def __init__(self, left: float) -> None:
        super().__init__(momentum=0.9)
        self.left = left

    def update(self, index, weight, grad, state):  # type: ignore[no-untyped-def]
        state[:] = self.left


def test_states_of_optimizers_are_compared_on_request() -> None:
    utils.compare_optimizer(Kept(1), Kept(1), (3,), "float32")
    utils.compare_optimizer(Kept(1), Kept(2), (3,), "float32", compare_states=False)
    with pytest.raises(AssertionError):
        utils.compare_optimizer(Kept(1), Kept(2), (3,), "float32")


def test_nested_tuples_of_arrays() -> None:
    one, two = mx.nd.ones((2,)), mx.nd.ones((2,)) * 2
    utils.compare_ndarray_tuple((one, (two, None)), (one, (two, one)))
    with pytest.raises(AssertionError):
        utils.compare_ndarray_tuple((one, (two, None)), (one, (one, None)))
    utils.compare_ndarray_tuple((one,), (two,), rtol=0, atol=1)
    with pytest.raises(ValueError, match="zip"):
        utils.compare_ndarray_tuple((one,), (one, one))
