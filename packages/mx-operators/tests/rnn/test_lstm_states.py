# SPDX-License-Identifier: Apache-2.0
"""LSTM with a projected state, and with bounds of the cell state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.operator import infer_shapes


def inputs_for(**attrs: Any) -> tuple[dict[str, Any], list[Any]]:
    """Parameters, and random inputs for data (4, 2, 3)."""
    rng = np.random.default_rng(2)
    attrs = {"mode": "lstm", "state_size": 4, "num_layers": 2, "state_outputs": True, **attrs}
    op = operators.get("RNN")
    p = op.Param.parse(attrs, op="RNN")
    shapes, _ = infer_shapes(op, p, [(4, 2, 3), *[None] * (len(op.inputs(p)) - 1)])
    return attrs, [rng.normal(size=shape) for shape in shapes]  # type: ignore[arg-type]


def test_shapes_with_a_projection() -> None:
    op = operators.get("RNN")
    p = op.Param(
        mode="lstm", state_size=4, num_layers=2, projection_size=2, bidirectional=True, state_outputs=True
    )
    inputs, outputs = infer_shapes(op, p, [(5, 3, 6), None, None, None])
    layers = [4 * 4 * (width + 2 + 2) + 2 * 4 for width in (6, 4)]
    assert inputs[1:] == ((2 * sum(layers),), (4, 3, 2), (4, 3, 4))
    assert outputs[:3] == ((5, 3, 4), (4, 3, 2), (4, 3, 4))
    assert infer_shapes(op, p, [None, None, None, (4, 3, 4)])[0][2] == (4, 3, 2)


def test_projecting_with_the_identity_changes_nothing(run: Any) -> None:
    attrs, inputs = inputs_for(num_layers=1)
    projected = np.insert(inputs[1], 4 * 4 * (3 + 4), np.eye(4).ravel())
    plain = run("RNN", inputs, **attrs)
    for a, b in zip(
        plain, run("RNN", [inputs[0], projected, *inputs[2:]], **attrs, projection_size=4), strict=True
    ):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.4])
def test_gradients_through_a_projection(check_gradient: Any, bidirectional: bool, p: float) -> None:
    attrs, inputs = inputs_for(projection_size=2, bidirectional=bidirectional, p=p)
    check_gradient("RNN", inputs, **attrs)


def test_gradients_through_a_projection_of_padded_sequences(check_gradient: Any) -> None:
    attrs, inputs = inputs_for(projection_size=3, bidirectional=True, use_sequence_length=True)
    check_gradient("RNN", [*inputs[:-1], np.array([2, 4])], **attrs)


@pytest.mark.parametrize(
    "bounds",
    [
        {"lstm_state_clip_min": -0.2, "lstm_state_clip_max": 0.3},
        {"lstm_state_clip_min": -0.1},
        {"lstm_state_clip_max": 0.2},
    ],
)
def test_cell_states_stay_within_their_bounds(
    run: Any, check_gradient: Any, bounds: dict[str, float]
) -> None:
    attrs, inputs = inputs_for(**bounds)
    cells = run("RNN", inputs, **attrs)[2]
    free = run("RNN", inputs, **{name: x for name, x in attrs.items() if name not in bounds})[2]
    assert not np.allclose(cells, free)
    low, high = (bounds.get(f"lstm_state_clip_{end}", x) for end, x in (("min", -np.inf), ("max", np.inf)))
    assert (cells >= low).all() and (cells <= high).all()
    check_gradient("RNN", inputs, **attrs)


def test_bounds_that_are_not_reached_change_nothing(run: Any) -> None:
    attrs, inputs = inputs_for()
    wide = {"lstm_state_clip_min": -99.0, "lstm_state_clip_max": 99.0, "lstm_state_clip_nan": True}
    for a, b in zip(run("RNN", inputs, **attrs), run("RNN", inputs, **attrs, **wide), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("replaces", "expected"), [(True, -0.5), (False, np.nan)])
def test_nan_in_a_cell_state(run: Any, replaces: bool, expected: float) -> None:
    attrs, inputs = inputs_for(num_layers=1, lstm_state_clip_min=-0.5, lstm_state_clip_nan=replaces)
    inputs[0][-1] = np.nan
    np.testing.assert_array_equal(run("RNN", inputs, **attrs)[2], np.full((1, 2, 4), expected))
