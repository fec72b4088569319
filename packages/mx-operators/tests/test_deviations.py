# SPDX-License-Identifier: Apache-2.0
"""Results that differ from MXNet's on purpose; docs/decisions/0008 says from what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, operators
from mx_core.errors import DTypeError
from mx_core.operator import infer_types
from testkit import replay

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "expected"),
    [
        ("sign", [np.array([NAN, -2.0, 0.0])], {}, [NAN, -1, 0]),
        ("norm", [np.array([3, 4], np.int32)], {}, [5]),
        ("nansum", [np.array([NAN, INF, 1.0])], {}, [INF]),
        ("_arange", [], {"start": 0, "stop": 1, "step": 0.25, "dtype": "float16"}, [0, 0.25, 0.5, 0.75]),
        ("_histogram", [np.array([-4, -1, 0, 3, 4], np.int32)], {"bin_cnt": 5, "range": (-4, 4)}, [1, 1, 1, 0, 2]),
        ("sort", [np.array([NAN, 2.0, 1.0])], {"is_ascend": False}, [2, 1, NAN]),
        ("argsort", [np.zeros(40, np.int32)], {}, list(range(40))),
        ("_greater_scalar", [np.array([0, 253, 255], np.uint8)], {"scalar": -3}, [1, 1, 1]),
        ("radians", [np.array([180, 360], np.int32)], {}, [0, 0]),
    ],
)  # fmt: skip
def test_values(run: Any, name: str, inputs: list[Any], attrs: dict[str, Any], expected: list[float]) -> None:
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(name, inputs, **attrs)[0], expected)


def test_a_softmax_of_an_instance_takes_everything_but_the_batch(run: Any) -> None:
    made = run("SoftmaxActivation", [np.arange(12.0).reshape(2, 3, 2)], mode="instance")[0]
    np.testing.assert_allclose(made.sum((1, 2)), 1)


def test_windows_outside_of_the_data_average_to_nothing(run: Any) -> None:
    attrs = {"kernel": (2,), "stride": (3,), "pad": (1,), "pool_type": "avg", "pooling_convention": "full"}
    assert run("Pooling", [np.ones((1, 1, 4))], **attrs)[0].tolist() == [[[0.5, 1.0, 0.0]]]


def test_random_slopes_are_shown(run: Any) -> None:
    x = np.array([[1.0, -2.0]])
    output, slopes = run("LeakyReLU", [x], act_type="rrelu", lower_bound=0.25, upper_bound=0.75)
    assert slopes.tolist() == [[1, 0.5]] and output.tolist() == [[1, -1]]


def test_gradients_where_mxnet_has_none() -> None:
    zeros, head = np.zeros((1, 3)), np.ones(1)
    attrs = {"axis": 1}
    grads = replay.backward("norm", attrs, [zeros], replay.forward("norm", attrs, [zeros], True), [head])
    assert grads[0].tolist() == [[0, 0, 0]]
    data, last = np.zeros((3, 2)), np.array([[-1]])
    grads = replay.backward("gather_nd", {}, [data, last], [data[[-1]]], [np.ones((1, 2))])
    assert grads[0].tolist() == [[0, 0], [0, 0], [1, 1]]


def test_what_a_recurrent_layer_would_ignore_is_computed(run: Any) -> None:
    arrays = [np.ones((3, 1, 1)), np.ones(4 * 4), np.ones((1, 1, 1)), np.ones((1, 1, 1))]
    attrs = {"mode": "lstm", "state_size": 1, "num_layers": 1, "state_outputs": True}
    output = run("RNN", [*arrays, np.array([1])], use_sequence_length=True, **attrs)[0]
    assert (output[0] > 0).all() and (output[1:] == 0).all()
    assert run("RNN", arrays, lstm_state_clip_max=0.5, **attrs)[2].tolist() == [[[0.5]]]


def test_the_last_step_gets_the_gradient() -> None:
    data, head = np.zeros((3, 2)), np.array([[1.0, 2.0]])[0]
    grads = replay.backward(
        "SequenceLast", {}, [data], replay.forward("SequenceLast", {}, [data], True), [head]
    )
    assert grads[0].tolist() == [[0, 0], [0, 0], [1, 2]]


def test_fractions_with_integers_are_refused() -> None:
    op = operators.get("_plus_scalar")
    p = op.Param(scalar=0.5, is_int=False)
    with pytest.raises(DTypeError, match="floating-point type with is_int=False, got int32"):
        infer_types(op, p, [dtypes.code("int32")])
