# SPDX-License-Identifier: Apache-2.0
"""Recurrent stacks over padded sequences: as if every sequence were run alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, operators
from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import infer_shapes, infer_types
from testkit import replay

MODES = ("rnn_tanh", "rnn_relu", "lstm", "gru")
STEPS, BATCH, FEATURES = 5, 4, 3
LENGTHS = np.array([3, 5, 0, 1])


def padded(mode: str, **attrs: Any) -> tuple[dict[str, Any], list[Any]]:
    """Parameters, and random inputs; behind the end of a sequence is what must not be read."""
    rng = np.random.default_rng(3)
    attrs = {"mode": mode, "state_size": 3, "num_layers": 2, "use_sequence_length": True, **attrs}
    op = operators.get("RNN")
    p = op.Param.parse(attrs, op="RNN")
    unknown = [None] * (len(op.inputs(p)) - 1)
    shapes, _ = infer_shapes(op, p, [(STEPS, BATCH, FEATURES), *unknown])
    inputs = [rng.normal(size=shape) for shape in shapes[:-1]]  # type: ignore[arg-type]
    inputs[0][np.arange(STEPS)[:, None] >= LENGTHS] = np.nan
    return attrs, [*inputs, LENGTHS]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_every_sequence_is_run_alone(run: Any, mode: str, bidirectional: bool) -> None:
    attrs, inputs = padded(mode, bidirectional=bidirectional, state_outputs=True)
    visible = 3 if mode == "lstm" else 2
    output, *states = run("RNN", inputs, **attrs)[:visible]
    alone = {**attrs, "use_sequence_length": False}
    for n, length in enumerate(LENGTHS):
        assert (output[length:, n] == 0).all()
        before = [state[:, n : n + 1] for state in inputs[2:-1]]
        if length == 0:
            behind = before
        else:
            only, *behind = run("RNN", [inputs[0][:length, n : n + 1], inputs[1], *before], **alone)[:visible]
            np.testing.assert_allclose(output[:length, n : n + 1], only)
        for state, last in zip(states, behind, strict=True):
            np.testing.assert_allclose(state[:, n : n + 1], last)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("attrs", [{}, {"state_outputs": True, "bidirectional": True, "p": 0.3}])
def test_gradients(check_gradient: Any, mode: str, attrs: dict[str, Any]) -> None:
    attrs, inputs = padded(mode, **attrs)
    check_gradient("RNN", [np.nan_to_num(inputs[0]), *inputs[1:]], **attrs)


def test_padding_reaches_no_gradient() -> None:
    attrs, inputs = padded("lstm", bidirectional=True)
    outputs = replay.forward("RNN", attrs, inputs, True)
    grads = replay.backward("RNN", attrs, inputs, outputs, [np.ones_like(y) for y in outputs])
    assert all(np.isfinite(grad).all() for grad in grads[:-1]) and grads[-1] is None
    assert (grads[0][np.arange(STEPS)[:, None] >= LENGTHS] == 0).all()


@pytest.mark.parametrize("wrong", [-1, STEPS + 1, np.nan])
def test_lengths_outside_of_the_data_are_errors(run: Any, wrong: float) -> None:
    attrs, inputs = padded("gru")
    lengths = np.array([1, wrong, 1, 1])
    with pytest.raises(IndexOutOfBoundsError, match="sequence_length: expected 0 to 5"):
        run("RNN", [*inputs[:-1], lengths], **attrs)


def test_lengths_have_a_type_of_their_own() -> None:
    op = operators.get("RNN")
    p = op.Param(mode="gru", state_size=2, num_layers=1, use_sequence_length=True)
    float64, int32 = (np.dtype(name) for name in ("float64", "int32"))
    known, _ = infer_types(op, p, [dtypes.code(float64), None, None, dtypes.code(int32)])
    assert known == (dtypes.code(float64),) * 3 + (dtypes.code(int32),)
    assert infer_types(op, p, [dtypes.code(float64), None, None, None])[0] == (dtypes.code(float64),) * 4
