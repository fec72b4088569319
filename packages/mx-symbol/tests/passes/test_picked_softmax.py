# SPDX-License-Identifier: Apache-2.0
"""The logarithm of softmax at labels as one operator: where it is found, and that results stay."""

import numpy as np
import pytest

from mx_symbol import sym

SHAPE = (5, 3, 7)
FUSED = ["_fused_log_softmax_pick", "_fused_log_softmax_pick_gradient"]
LABELS = np.array([[0, 6, 3], [1, -4, 2], [9, 5, 5], [0, 0, 1], [2.7, np.nan, 6]], np.float32)


def entropy(x, label, pick=None, **softmax):
    return sym.pick(sym.log_softmax(x, **softmax), label, **(pick or {}))


def run(net, passes, shape=SHAPE, dtype="float32", labels=LABELS, is_train=True, data=None):
    """Operators that run, outputs, and the gradient of data."""
    types = {"data": dtype, "label": labels.dtype.name}
    requests = {"data": "write" if is_train else "null", "label": "null"}
    executor = net.simple_bind(
        grad_req=requests, passes=passes, type_dict=types, data=shape, label=labels.shape
    )
    rng = np.random.default_rng(0)
    executor.arg_dict["data"][:] = (
        (3 * rng.standard_normal(shape)).astype("float16") if data is None else data
    )
    executor.arg_dict["label"][:] = labels
    outputs = executor.forward(is_train=is_train)
    found = [y.asnumpy() for y in outputs]
    if is_train:
        executor.backward([y * 0.5 + 1 for y in outputs])
        found.append(executor.grad_dict["data"].asnumpy())
    return [node.op.name for node in executor.nodes(is_train)], found


def same(net, tolerance=2e-6, against="float64", **how):
    """Operators that run; results are those of a type without any pass."""
    names, got = run(net, "all", **how)
    for y, expected in zip(got, run(net, "none", **{**how, "dtype": against})[1], strict=True):
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)
    return names


def variables():
    return sym.Variable("data"), sym.Variable("label")


@pytest.mark.parametrize("axis", [-1, 2])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_training_step(axis, keepdims, dtype):
    net = entropy(*variables(), {"axis": axis, "keepdims": keepdims}, axis=axis)
    assert same(net, dtype=dtype) == FUSED


def test_a_forward_pass():
    assert same(entropy(*variables()), is_train=False) == FUSED[:1]


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64", "uint8", "int8"])
def test_types_of_labels(dtype):
    labels = np.nan_to_num(LABELS).clip(0 if dtype == "uint8" else -4).astype(dtype)
    assert same(entropy(*variables()), labels=labels) == FUSED


def test_one_row():
    assert same(entropy(*variables()), shape=(7,), labels=np.array([3.0], np.float32)) == FUSED


def test_rows_that_are_long_and_many():
    labels = np.random.default_rng(1).integers(0, 3001, 70).astype(np.float32)
    assert same(entropy(*variables()), shape=(70, 3001), labels=labels) == FUSED


def test_rows_without_finite_logarithms():
    data = np.zeros((5, 3, 7), np.float32)
    data[0, 0] = -np.inf
    data[0, 1, 4] = -np.inf
    data[0, 2, 3] = np.inf
    data[1, 0, 1] = np.nan
    data[2] = 1e30
    data[3, 0] = np.linspace(-3e38, 3e38, 7)
    data[4, 1] = [1e3, 0, -1e3, 1e3, 5, 6, 7]
    assert same(entropy(*variables()), against="float32", data=data) == FUSED


def test_with_the_operators_around_it():
    data, label = variables()
    net = sym.mean(-entropy(data * 2, label, {"keepdims": True}), axis=0, exclude=True)
    names = same(net)
    assert set(FUSED) < set(names) and not {"log_softmax", "pick", "_backward_pick"} & set(names)


@pytest.mark.parametrize(
    ("pick", "softmax"),
    [
        ({"mode": "wrap"}, {}), ({"axis": 1}, {}), ({}, {"axis": 1}), ({"axis": None}, {}), ({}, {"temperature": 2.0}),
        ({}, {"dtype": "float64"}),
    ],
)  # fmt: skip
def test_what_stays(pick, softmax):
    labels = LABELS
    if pick.get("axis", -1) == 1:
        labels = np.zeros((5, 7), np.float32)
    names = same(entropy(*variables(), pick, **softmax), against="float32", labels=labels)
    assert names == ["log_softmax", "pick", "_backward_pick", "_backward_log_softmax"] + [
        "_backward_Cast"
    ] * bool(softmax.get("dtype"))


def test_scores_that_are_written_between_forward_and_backward():
    executor = entropy(*variables()).simple_bind(
        grad_req={"data": "add", "label": "null"}, data=(2, 3), label=(2,)
    )
    assert [node.op.name for node in executor.nodes(True)] == FUSED
    executor.arg_dict["data"][:] = 0
    executor.grad_dict["data"][:] = 1
    (y,) = executor.forward(is_train=True)
    executor.arg_dict["data"][:] = [5, 6, 9]
    executor.backward(y * 0 + 3)
    expected = 1 + np.array([[2, -1, -1]] * 2)
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), expected, rtol=1e-6)


def test_logarithms_that_others_read_stay():
    data, label = variables()
    logarithms = sym.log_softmax(data)
    picked = sym.pick(logarithms, label)
    for net in (sym.Group([picked, logarithms]), sym.Group([picked, sym.exp(logarithms)])):
        assert not set(FUSED) & set(same(net, against="float32"))


def test_two_picks_stay():
    data, label = variables()
    logarithms = sym.log_softmax(data)
    net = sym.pick(logarithms, label) + sym.pick(logarithms, label + 1)
    assert not set(FUSED) & set(same(net, against="float32"))


def test_types_without_a_kernel_stay():
    names = same(entropy(*variables()), against="float16", dtype="float16")
    assert not set(FUSED) & set(names)
