# SPDX-License-Identifier: Apache-2.0
"""Sequences and shuffled rows against their references: axes, types, lengths, errors."""

from __future__ import annotations

import numpy as np
import plans
import pytest

from mx_core import operators
from mx_core.errors import IndexOutOfBoundsError


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("lengths", [None, "float32", "int32"])
@pytest.mark.parametrize("tail", [(), (5,), (2, 300)])
def test_sequences(
    rng: np.random.Generator, dtype: str, axis: int, lengths: str | None, tail: tuple[int, ...]
) -> None:
    shape = (7, 4, *tail) if axis == 0 else (4, 7, *tail)
    x = plans.array(rng, shape, dtype)
    attrs = {"use_sequence_length": lengths is not None, "axis": axis}
    given = [np.array([7, 1, 3, 2], lengths)] if lengths else []
    plans.verify("SequenceMask", {**attrs, "value": -2.0}, [x, *given], threads=2)
    plans.verify("SequenceLast", attrs, [x, *given])
    head = plans.array(rng, (4, *tail), dtype)
    plans.verify("_backward_SequenceLast", attrs, [head, x, *given])
    if axis == 0:
        plans.verify("SequenceReverse", attrs, [x, *given])


@pytest.mark.parametrize(("name", "wrong"), [("SequenceMask", -1), ("SequenceMask", np.nan), ("SequenceLast", 0), ("SequenceLast", 8),
                                             ("SequenceReverse", np.nan)])  # fmt: skip
def test_lengths_are_checked(name: str, wrong: float) -> None:
    op = operators.get(name)
    p = op.Param.parse({"use_sequence_length": True}, op=name)
    inputs = [np.ones((7, 2, 3), np.float32), np.array([2, wrong], np.float32)]
    call = plans.call_of(op, p, inputs)
    out = np.zeros(call.outputs[0].shape, np.float32)
    with pytest.raises(IndexOutOfBoundsError, match=rf"{name}\] sequence_length: expected"):
        plans.run(plans.plan_of(call), inputs, [out], [plans.WRITE], scalars=(0.0,))
    assert (out == 0).all()


@pytest.mark.parametrize("shape", [(1,), (9,), (2000, 3), (5, 2, 2)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_shuffle(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> None:
    plans.verify("_shuffle", {}, [plans.array(rng, shape, dtype)], random=(11, 5), threads=2)
