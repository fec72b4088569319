# SPDX-License-Identifier: Apache-2.0
"""Calls that once leaked an exception of NumPy's, ran for ever or crashed a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, errors, operators
from mx_core.operator import ReferenceContext, infer_shapes

HUGE = 2**62


def shapes(name: str, *inputs: tuple[int, ...], **settings: Any) -> Any:
    op = operators.get(name)
    return infer_shapes(op, op.Param.parse(settings, op=name), inputs)[1]


def compute(name: str, *inputs: Any, **settings: Any) -> Any:
    op = operators.get(name)
    return op.reference(op.Param.parse(settings, op=name), inputs, ReferenceContext())[0]


@pytest.mark.parametrize(
    ("name", "inputs", "settings", "message"),
    [
        ("LRN", [(7,)], {"nsize": 3}, r"data: expected \(batch, channels, \.\.\.\), got \(7,\)"),
        ("LRN", [(2, 3)], {"nsize": 10**30}, "nsize: expected at most"),
        (
            "Deconvolution",
            [(1, 2, 4), (2, 3, 2), (3,)],
            {"kernel": (2,), "num_filter": 3, "stride": (2,), "adj": (2,), "no_bias": False},
            "adj: expected less than stride",
        ),
        ("_arange", [], {"start": 0, "stop": 1, "step": 0}, "step: expected non-zero"),
        ("_arange", [], {"start": 0, "stop": float("inf")}, "not finitely many"),
        ("_arange", [], {"start": 0, "stop": float("nan")}, "not finitely many"),
        ("_arange", [], {"start": 0, "stop": 1e18}, r"from 0 to 1e\+18 by 1 there are 1e\+18 numbers"),
        ("_arange", [], {"start": 0, "stop": 1e300}, r"there are 1e\+300 numbers"),
        ("_ones", [], {"shape": (HUGE, HUGE)}, r"more than 2\^63"),
        ("_zeros", [], {"shape": (1,) * 33}, "at most 32 dimensions"),
        ("repeat", [(4, 2)], {"repeats": HUGE}, r"more than 2\^63"),
        ("tile", [(4,)], {"reps": (HUGE,)}, r"more than 2\^63"),
        ("one_hot", [(4,)], {"depth": HUGE}, r"more than 2\^63"),
        ("broadcast_to", [(1, 1)], {"shape": (HUGE, 4)}, r"more than 2\^63"),
        ("broadcast_like", [(1, 1), (2, 2)], {"lhs_axes": (0,)}, "differ in length"),
        ("SliceChannel", [(4, 4)], {"num_outputs": 10**9}, "num_outputs: expected at most 65536"),
        ("_split_v2", [(4, 4)], {"indices": (0,), "sections": 10**9}, "sections: expected at most 65536"),
        ("_split_v2", [(4, 4)], {"indices": ()}, "indices: expected at least one"),
        ("_split_v2", [(4, 4)], {"indices": (1, 3)}, "indices: expected 0 first"),
        ("_split_v2", [(4, 4)], {"indices": (0, 3, 2)}, "indices: expected 0 first and then no smaller"),
        (
            "_split_v2",
            [(4, 4)],
            {"indices": (0, 1), "axis": 0, "squeeze_axis": True},
            r"squeeze_axis: expected pieces of extent 1, got \[1, 3\] along axis 0",
        ),
        (
            "_split_v2",
            [(4, 4)],
            {"indices": (), "sections": 3, "squeeze_axis": True},
            r"got \[2, 1, 1\] along axis 1",
        ),
        ("_unbroadcast", [(7, 3), (2, 3)], {}, "does not broadcast"),
        ("_unbroadcast", [(3,), (1, 3)], {}, "does not broadcast"),
        ("_backward_slice_like", [(3, 2), (2, 2)], {}, "no part"),
        ("SoftmaxActivation", [(4,)], {}, "at least 2 dimensions"),
        ("topk", [(2, 3)], {"axis": 5, "ret_typ": "mask"}, "axis"),
        ("_backward_topk", [(), (2, 3)], {}, r"out_grad: expected shape \(2, 1\), got \(\)"),
        ("argmax", [(2, 0)], {"axis": None}, "no elements"),
        ("argmax_channel", [(2, 0)], {}, "no channels"),
        ("Pooling", [(1, 1, 4)], {"kernel": (2,), "pool_type": "lp"}, "p_value: required"),
        ("_backward_Pooling", [(1, 2, 9), (1, 2, 4), (1, 2, 9)], {"kernel": (2,)}, "one Pooling"),
        ("_backward_FullyConnected", [(2, 5), (2, 3), (4, 3)], {"num_hidden": 4}, "one FullyConnected"),
    ],
)
def test_is_refused(name: str, inputs: Any, settings: Any, message: str) -> None:
    with pytest.raises((errors.ShapeError, errors.ArgumentError), match=rf"\[{name}\].*{message}"):
        shapes(name, *inputs, **settings)


@pytest.mark.parametrize("name", ["Concat", "_backward_Concat", "stack", "add_n"])
def test_more_inputs_than_an_operator_can_have(name: str) -> None:
    with pytest.raises(errors.ArgumentError, match=rf"\[{name}\] num_args: expected at most 65536"):
        operators.get(name).Param.parse({"num_args": 2**40}, op=name)


def test_pieces_from_before_the_start_are_empty_or_whole() -> None:
    assert shapes("_split_v2", (4, 2), indices=(-9, -1), axis=0) == ((3, 2), (1, 2))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2.0**63, -1e300])
def test_numbers_that_no_integer_holds(value: float) -> None:
    filled = compute("_full", shape=(2,), value=value, dtype="int32")
    assert filled.dtype == np.int32
    assert filled[0] == -(2**31)


def test_nothing_repeated_often() -> None:
    assert compute("_arange", start=1, stop=0, repeat=2**63).shape == (0,)


@pytest.mark.parametrize("k", [-(2**31), 2**31 - 1, 2**62])
def test_a_diagonal_far_outside_is_empty(k: int) -> None:
    assert compute("diag", np.ones((5, 4, 3), np.int32), k=k).shape == (3, 0)


def test_a_spread_whose_inverse_is_infinite_is_none() -> None:
    drawn = compute("_random_generalized_negative_binomial", mu=2.0, alpha=1e-320, shape=(1000,))
    assert 1.5 < drawn.mean() < 2.5


@pytest.mark.parametrize("label", [-1.0, 3.0, float("nan")])
def test_labels_of_no_class(label: float) -> None:
    data = np.ones((2, 3))
    with pytest.raises(
        errors.IndexOutOfBoundsError, match=r"\[softmax_cross_entropy\] label: expected 0 to 2"
    ):
        compute("softmax_cross_entropy", data, np.array([0, label]))
    if label == label:
        grad = compute("_backward_softmax_cross_entropy", np.ones(1), data, np.array([0, label]))
        np.testing.assert_allclose(grad, [[-2 / 3, 1 / 3, 1 / 3], [1 / 3] * 3])


def test_classes_on_the_second_axis_come_before_those_on_the_last() -> None:
    both = {"multi_output": True, "preserve_shape": True}
    x = np.array([[[1, 2, 3], [3, 5, 4]]], np.float64)
    np.testing.assert_allclose(compute("SoftmaxOutput", x, np.zeros((1, 3)), **both).sum(1), 1)
    assert shapes("SoftmaxOutput", (1, 2, 3), (1, 3), **both) == ((1, 2, 3),)


def test_a_range_is_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mx_operators.array.fill.PIECE", 4)
    found = compute("_arange", start=0.5, stop=5, step=0.5, repeat=2, dtype="float16")
    np.testing.assert_array_equal(found, np.repeat(np.arange(1, 10) / 2, 2).astype(np.float16))


def test_the_gradient_of_no_probabilities_is_empty() -> None:
    grad = compute("_backward_SoftmaxOutput", np.ones(0), np.ones((0, 3)), normalization="batch")
    assert grad.shape == (0, 3)


def test_a_window_wider_than_the_channels_is_quick() -> None:
    x = np.ones((1, 3, 2), np.float32)
    np.testing.assert_allclose(
        compute("LRN", x, nsize=2**31 - 1, alpha=2.0**31 - 1, beta=1.0, knorm=0.0), 1 / 3
    )


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_softmin_of_integers(dtype: str) -> None:
    x = np.array([[1, 0]], dtypes.numpy_dtype(dtypes.code(dtype)))
    assert compute("softmin", x).tolist() == [[0, 0]]


def test_determinant_of_what_is_not_finite_has_no_gradient() -> None:
    from mx_operators.linalg.determinant import cofactors

    stack = np.stack([np.eye(3), np.full((3, 3), np.nan)])
    grads = cofactors(stack)
    np.testing.assert_allclose(grads[0], np.eye(3), atol=1e-12)
    assert np.isnan(grads[1]).all()


def test_truth_values_have_references() -> None:
    """NumPy neither subtracts them nor counts them in bins, and does not take them together with fractions."""
    truth = np.array([[True, False], [True, True]])
    ones, fractions = np.ones(2, bool), np.array([0.5, 0.0], np.float32)
    np.testing.assert_array_equal(
        compute("_histogram", truth, np.array([0.0, 0.5, 1.0]), bin_cnt=None), [1, 3]
    )
    gradient = compute("_backward_moments", ones, ones, truth, ones, axes=(1,))
    np.testing.assert_array_equal(gradient, [[True, True], [True, True]])
    gradient = compute("_backward_norm", fractions, truth, fractions, ord=1, axis=1, out_dtype="float32")
    np.testing.assert_array_equal(gradient, [[True, False], [False, False]])


def test_powers_without_end_are_infinite() -> None:
    w = np.ones((2,), np.float32)
    with np.errstate(over="ignore"):
        step = compute("lamb_update_phase1", w, w, w, w, beta1=3.7, t=2**31, bias_correction=True, wd=0.0)
    np.testing.assert_array_equal(step, [0, 0])
