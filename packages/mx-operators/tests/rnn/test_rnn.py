# SPDX-License-Identifier: Apache-2.0
"""Recurrent stacks beyond the recorded cases: depth in both directions, dropout, hidden states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import ShapeError
from mx_core.operator import infer_shapes

MODES = ("rnn_tanh", "rnn_relu", "lstm", "gru")


def inputs_for(mode: str, **attrs: Any) -> tuple[dict[str, Any], list[Any]]:
    """Parameters, and random inputs of the shapes that are inferred from data (3, 2, 4)."""
    rng = np.random.default_rng(1)
    attrs = {"mode": mode, "state_size": 3, "num_layers": 2, **attrs}
    op = operators.get("RNN")
    p = op.Param.parse(attrs, op="RNN")
    shapes, _ = infer_shapes(op, p, [(3, 2, 4), *[None] * (len(op.inputs(p)) - 1)])
    return attrs, [rng.normal(size=shape) for shape in shapes]  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("states", [True, False])
@pytest.mark.parametrize("p", [0.0, 0.5])
def test_gradients_of_two_layers_in_both_directions(
    check_gradient: Any, mode: str, states: bool, p: float
) -> None:
    attrs, inputs = inputs_for(mode, bidirectional=True, state_outputs=states, p=p)
    check_gradient("RNN", inputs, **attrs)


@pytest.mark.parametrize("mode", MODES)
def test_last_states_are_the_ends_of_the_output(run: Any, mode: str) -> None:
    attrs, inputs = inputs_for(mode, num_layers=1, bidirectional=True, state_outputs=True)
    output, state = run("RNN", inputs, **attrs)[:2]
    np.testing.assert_array_equal(output[-1, :, :3], state[0])
    np.testing.assert_array_equal(output[0, :, 3:], state[1])


@pytest.mark.parametrize("mode", MODES)
def test_the_reverse_direction_is_the_forward_one_on_reversed_data(run: Any, mode: str) -> None:
    attrs, inputs = inputs_for(mode, num_layers=1, bidirectional=True)
    both = run("RNN", inputs, **attrs)[0]
    data, vector, *states = inputs
    rows = {"lstm": 4, "gru": 3}.get(mode, 1) * 3
    weights, biases = np.split(vector, [2 * rows * 7])
    second = np.concatenate((weights[rows * 7 :], biases[2 * rows :]))
    single = {**attrs, "bidirectional": False}
    turned = run("RNN", [data[::-1], second, *(x[1:] for x in states)], **single)[0]
    np.testing.assert_allclose(turned[::-1], both[..., 3:])


def test_dropout_is_between_layers_and_in_training_only(run: Any) -> None:
    attrs, inputs = inputs_for("lstm", p=0.5)
    plain = run("RNN", inputs, **{**attrs, "p": 0.0})
    resting, _, mask = run("RNN", inputs, **attrs)
    np.testing.assert_array_equal(resting, plain[0])
    assert (mask == 1).all() and mask.shape == (1, 3, 2, 3)
    dropped, _, mask = run("RNN", inputs, train=True, **attrs)
    assert set(np.unique(mask)) == {0.0, 2.0} and not np.allclose(dropped, resting)
    assert len(run("RNN", inputs_for("lstm", num_layers=1)[1], **{**attrs, "num_layers": 1})) == 2


def test_parameters_and_states_follow_from_data() -> None:
    op = operators.get("RNN")
    p = op.Param(mode="gru", state_size=5, num_layers=3, bidirectional=True, state_outputs=True)
    inputs, outputs = infer_shapes(op, p, [(7, 2, 4), None, None])
    rows = 3 * 5 * 2
    assert inputs[1:] == ((rows * (4 + 5 + 2) + 2 * rows * (10 + 5 + 2),), (6, 2, 5))
    assert outputs == ((7, 2, 10), (6, 2, 5), (7 * 2 * 10 * (3 * 4 + 2),))
    with pytest.raises(ShapeError, match="parameters"):
        infer_shapes(op, p, [(7, 2, 4), (3,), None])
    with pytest.raises(ShapeError, match="no steps"):
        infer_shapes(op, p, [(0, 2, 4), None, None])


@pytest.mark.parametrize(
    ("mode", "wrong", "name"),
    [
        ("gru", {"projection_size": 2}, "projection_size"),
        ("rnn_tanh", {"lstm_state_clip_max": 1.0}, "lstm_state_clip_max"),
        ("lstm", {"lstm_state_clip_min": 1.0, "lstm_state_clip_max": 0.5}, "lstm_state_clip_max"),
    ],
)
def test_what_a_cell_does_not_have_is_an_error(mode: str, wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(ShapeError, match=name):
        inputs_for(mode, **wrong)


def test_parameters_are_put_together(run: Any, check_gradient: Any) -> None:
    parts = [np.arange(3.0), np.arange(2.0)]
    np.testing.assert_array_equal(run("_rnn_param_concat", parts, num_args=2, dim=0)[0], [0, 1, 2, 0, 1])
    check_gradient("_rnn_param_concat", parts, num_args=2, dim=0)
    op = operators.get("_rnn_param_concat")
    inputs, _ = infer_shapes(op, op.Param(num_args=2, dim=0), [(3,), None], [(5,)])
    assert inputs[1] == (2,)


def test_unknown_parameters_are_of_equal_extents() -> None:
    """Weights of the first layer, of both directions."""
    op = operators.get("_rnn_param_concat")
    p = op.Param(num_args=3, dim=0)
    assert infer_shapes(op, p, [None, (3,), (-1,)], [(11,)])[0] == ((4,), (3,), (4,))
    assert infer_shapes(op, p, [(2,), (3,), None], [None])[0][:2] == ((2,), (3,))
    odd = infer_shapes(op, p, [None, (3,), None], [(10,)])[0]
    assert odd[0] != (3,) and odd[1] == (3,)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("more", [{}, {"p": 0.5}, {"state_outputs": True, "bidirectional": True, "p": 0.5}])
def test_shapes_of_results_are_those_that_were_inferred(
    run: Any, mode: str, layers: int, more: dict[str, Any]
) -> None:
    attrs, inputs = inputs_for(mode, num_layers=layers, **more)
    op = operators.get("RNN")
    _, inferred = infer_shapes(op, op.Param.parse(attrs, op="RNN"), [x.shape for x in inputs])
    assert [tuple(x.shape) for x in run("RNN", inputs, **attrs)] == [tuple(shape) for shape in inferred]
