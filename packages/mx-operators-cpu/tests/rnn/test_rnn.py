# SPDX-License-Identifier: Apache-2.0
"""Recurrent stacks against their reference: all cells, depths, directions, lengths and requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import layer_plans
import numpy as np
import pytest
from ml_dtypes import bfloat16

from mx_core import operators
from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import Operator, ReferenceContext, gradient_of, infer_shapes
from mx_core.testing.case import make_case
from mx_core.testing.concurrent import ELEMENTS, enlarged

MODES = ("rnn_tanh", "rnn_relu", "lstm", "gru")
#: of what is computed in a type
TOLERANCES = {"float32": {"rtol": 1e-3, "atol": 1e-4}, "float64": {"rtol": 1e-11, "atol": 1e-11}}
both_types = pytest.mark.parametrize("dtype", TOLERANCES)


def _inputs(
    rng: np.random.Generator, attrs: dict[str, Any], data: tuple[int, ...], dtype: str = "float32"
) -> list[np.ndarray]:
    op = operators.get("RNN")
    p = op.Param.parse(attrs, op="RNN")
    shapes, _ = infer_shapes(op, p, [data, *[None] * (len(op.inputs(p)) - 1)])
    scales = (1.0, 0.4, 1.0, 1.0)
    made = [
        (scale * rng.standard_normal(shape)).astype(dtype)
        for scale, shape in zip(scales, shapes[: 4 if p.mode == "lstm" else 3], strict=False)
    ]
    if p.use_sequence_length:
        made.append(np.arange(data[1], dtype=dtype) % (data[0] + 1))
        made[0][np.arange(data[0])[:, None] >= made[-1]] = np.nan
    return made


@both_types
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("layers", "states", "p"), [(1, True, 0.0), (3, False, 0.0), (2, True, 0.4)])
def test_all_stacks(
    rng: np.random.Generator, mode: str, bidirectional: bool, layers: int, states: bool, p: float, dtype: str
) -> None:
    attrs = {"mode": mode, "state_size": 5, "num_layers": layers, "state_outputs": states, "p": p,
             "bidirectional": bidirectional}  # fmt: skip
    layer_plans.verify("RNN", attrs, _inputs(rng, attrs, (4, 3, 6), dtype), **TOLERANCES[dtype])


@both_types
@pytest.mark.parametrize("mode", MODES)
def test_extents_of_one(rng: np.random.Generator, mode: str, dtype: str) -> None:
    attrs = {"mode": mode, "state_size": 1, "num_layers": 2, "bidirectional": True}
    layer_plans.verify("RNN", attrs, _inputs(rng, attrs, (1, 1, 1), dtype), **TOLERANCES[dtype])


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "dtype", "layers", "bidirectional", "units", "batch", "tolerance"),
    [
        pytest.param(mode, *stack, marks=pytest.mark.slow if mode == other else [])
        for other, stack in (
            ("gru", ("float32", 2, True, 160, 56, TOLERANCES["float32"])),
            ("lstm", ("float64", 1, False, 157, 57, {"rtol": 1e-10, "atol": 1e-10})),
        )
        for mode in ("lstm", "gru")
    ],
)
def test_teams_and_steps_in_several_chunks(
    rng: np.random.Generator, mode: str, dtype: str, layers: int, bidirectional: bool, units: int, batch: int,
    tolerance: dict[str, float],
) -> None:  # fmt: skip
    attrs = {"mode": mode, "state_size": units, "num_layers": layers, "bidirectional": bidirectional,
             "state_outputs": True}  # fmt: skip
    inputs = _inputs(rng, attrs, (35, batch, 9), dtype)
    inputs[1] *= 0.2
    layer_plans.verify("RNN", attrs, inputs, **tolerance)


@both_types
def test_dropout_is_not_applied_outside_training(rng: np.random.Generator, dtype: str) -> None:
    attrs = {"mode": "gru", "state_size": 4, "num_layers": 2, "p": 0.5}
    layer_plans.verify(
        "RNN", attrs, _inputs(rng, attrs, (3, 2, 5), dtype), is_train=False, **TOLERANCES[dtype]
    )


@pytest.mark.parametrize(
    ("dtype", "scale", "tolerance"),
    [("float32", 1e4, {"atol": 1e-4}), ("float64", 1e6, TOLERANCES["float64"])],
)
def test_large_inputs_saturate(
    rng: np.random.Generator, dtype: str, scale: float, tolerance: dict[str, float]
) -> None:
    """Sums of 10,000 have roundings of 0.001, in an order that depends on the instruction set."""
    attrs = {"mode": "lstm", "state_size": 20, "num_layers": 1}
    inputs = _inputs(rng, attrs, (5, 2, 3), dtype)
    inputs[0] *= scale
    layer_plans.verify("RNN", attrs, inputs, gradient=False, **tolerance)


@both_types
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("layers", "states", "p"), [(1, True, 0.0), (2, False, 0.4), (3, True, 0.0)])
def test_padded_sequences(
    rng: np.random.Generator, mode: str, bidirectional: bool, layers: int, states: bool, p: float, dtype: str
) -> None:
    attrs = {"mode": mode, "state_size": 5, "num_layers": layers, "state_outputs": states, "p": p,
             "bidirectional": bidirectional, "use_sequence_length": True}  # fmt: skip
    layer_plans.verify("RNN", attrs, _inputs(rng, attrs, (4, 6, 3), dtype), **TOLERANCES[dtype])


@both_types
@pytest.mark.parametrize("lengths_type", ["int32", "int64", "float32", "float64", "uint8"])
def test_lengths_of_other_types(rng: np.random.Generator, lengths_type: str, dtype: str) -> None:
    attrs = {"mode": "gru", "state_size": 3, "num_layers": 2, "use_sequence_length": True}
    *inputs, lengths = _inputs(rng, attrs, (4, 6, 3), dtype)
    layer_plans.verify("RNN", attrs, [*inputs, lengths.astype(lengths_type)], **TOLERANCES[dtype])


def _distance(got: np.ndarray, expected: np.ndarray) -> float:
    """How far arrays are apart, of the length of the expected one."""
    difference = got.astype(np.float64) - expected.astype(np.float64)
    return float(np.linalg.norm(difference) / np.linalg.norm(expected.astype(np.float64)))


@pytest.mark.parametrize(
    ("mode", "tolerance"), [("rnn_tanh", 0.02), ("rnn_relu", 0.2), ("lstm", 0.01), ("gru", 0.01)]
)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("layers", "p", "lengths"), [(1, 0.0, False), (3, 0.0, False), (2, 0.4, True)])
def test_bfloat16_beside_float32(
    rng: np.random.Generator,
    mode: str,
    tolerance: float,
    bidirectional: bool,
    layers: int,
    p: float,
    lengths: bool,
) -> None:
    """Arrays are apart by about the rounding of an element, 2^-9; units of relu may fall on the other side of 0."""
    attrs = {"mode": mode, "state_size": 17, "num_layers": layers, "state_outputs": True, "p": p,
             "bidirectional": bidirectional, "use_sequence_length": lengths}  # fmt: skip
    exact = _inputs(rng, attrs, (9, 6, 12))
    exact[1] *= 0.5
    low = [x.astype(bfloat16) if i < 4 - (mode != "lstm") else x for i, x in enumerate(exact)]
    exact = [x.astype(np.float32) for x in low]
    op = operators.get("RNN")
    params = op.Param.parse(attrs, op="RNN")
    expected, outputs = _computed(op, params, exact, low)
    for got, want in zip(outputs, expected, strict=True):
        assert _distance(got, want) < 0.01
    heads = [
        rng.standard_normal(expected[i].shape).astype(bfloat16) for i in range(op.num_visible_outputs(params))
    ]
    (node,) = gradient_of(op, params).nodes
    given = [{"out_grad": heads, "input": low, "output": outputs}[e.kind][e.index] for e in node.inputs]
    wide = [x.astype(np.float32) for x in heads]
    reference = [{"out_grad": wide, "input": exact, "output": expected}[e.kind][e.index] for e in node.inputs]
    for want, got in zip(*_computed(operators.get(node.op), node.params, reference, given), strict=True):
        assert _distance(got, want) < tolerance


def _computed(
    op: Operator, p: Any, exact: Sequence[np.ndarray], low: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Results of the reference in float32, and of the kernel in bfloat16."""
    expected = [np.asarray(y) for y in op.reference(p, list(exact), ReferenceContext(is_train=True))]
    outputs = [np.zeros(y.shape, bfloat16) for y in expected]
    layer_plans.run(layer_plans.prepare(op, p, low, outputs), low, outputs)
    return expected, outputs


@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_bfloat16_adds_and_leaves_out(rng: np.random.Generator, mode: str) -> None:
    attrs = {"mode": mode, "state_size": 5, "num_layers": 2, "state_outputs": True}
    inputs = [(0.4 * x).astype(bfloat16) for x in _inputs(rng, attrs, (4, 3, 6))]
    layer_plans.verify("RNN", attrs, inputs, rtol=0.05, atol=0.03)


@pytest.mark.parametrize("wrong", [-1.0, 5.0, np.nan])
def test_lengths_outside_of_the_data(rng: np.random.Generator, wrong: float) -> None:
    attrs = {"mode": "lstm", "state_size": 3, "num_layers": 1, "use_sequence_length": True}
    inputs = _inputs(rng, attrs, (4, 2, 3))
    inputs[-1][1] = wrong
    op = operators.get("RNN")
    p = op.Param.parse(attrs, op="RNN")
    _, shapes = infer_shapes(op, p, [x.shape for x in inputs])
    outputs = [np.zeros(shape, np.float32) for shape in shapes]  # type: ignore[arg-type]
    with pytest.raises(IndexOutOfBoundsError, match="sequence_length: expected 0 to 4"):
        layer_plans.run(layer_plans.prepare(op, p, inputs, outputs), inputs, outputs)


@pytest.mark.parametrize("attrs", [{"projection_size": 2}, {"lstm_state_clip_max": 1.0}])
def test_projections_and_bounds_are_left_to_others(rng: np.random.Generator, attrs: dict[str, Any]) -> None:
    attrs = {"mode": "lstm", "state_size": 3, "num_layers": 1, **attrs}
    inputs = _inputs(rng, attrs, (4, 2, 3))
    op = operators.get("RNN")
    p = op.Param.parse(attrs, op="RNN")
    assert layer_plans.prepare(op, p, inputs, op.reference(p, inputs, ReferenceContext())) is None


def test_checks_of_threads_keep_within_their_size() -> None:
    given = {"state_size": 2, "num_layers": 2, "mode": "gru"}
    case = make_case("RNN", given, [(2, 3, 5), (90,), (2, 3, 2)], dtype="float32")
    larger = list(enlarged(case, "float32"))
    assert max(x.size for x in larger[0].inputs) > 100 * case.inputs[0].size
    assert all(x.size <= ELEMENTS for each in larger for x in each.inputs)
