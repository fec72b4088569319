# SPDX-License-Identifier: Apache-2.0
"""Padded sequences with lengths, which the recorded cases reach only for SequenceMask."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import IndexOutOfBoundsError, ShapeError
from mx_core.operator import ReferenceContext, gradient_of, infer_shapes

NAMES = ("SequenceMask", "SequenceLast", "SequenceReverse")


def run(name: str, inputs: list[Any], **attrs: Any) -> Any:
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    return op.reference(p, inputs, ReferenceContext())[0]


def test_each_sequence_ends_at_its_length() -> None:
    data = np.arange(24.0).reshape(4, 3, 2)
    lengths = np.array([1, 4, 2], np.int32)
    last = run("SequenceLast", [data, lengths], use_sequence_length=True)
    np.testing.assert_array_equal(last, data[[0, 3, 1], [0, 1, 2]])
    turned = run("SequenceReverse", [data, lengths], use_sequence_length=True)
    np.testing.assert_array_equal(turned[:, 0], data[:, 0])
    np.testing.assert_array_equal(turned[:, 1], data[::-1, 1])
    np.testing.assert_array_equal(turned[:, 2], data[[1, 0, 2, 3], 2])


def test_axis_1_is_the_transpose_of_axis_0() -> None:
    data = np.arange(24.0).reshape(4, 3, 2)
    lengths = np.array([1, 4, 2], np.float32)
    for name, back in (("SequenceMask", True), ("SequenceLast", False)):
        first = run(name, [data, lengths], use_sequence_length=True)
        second = run(name, [data.swapaxes(0, 1), lengths], use_sequence_length=True, axis=1)
        np.testing.assert_array_equal(first, second.swapaxes(0, 1) if back else second)


def test_gradient_of_last_goes_to_the_last_step() -> None:
    op = operators.get("_backward_SequenceLast")
    p = op.Param(use_sequence_length=True)
    grad = op.reference(p, [np.ones((3, 2)), np.zeros((4, 3, 2)), np.array([1, 4, 2])], ReferenceContext())[0]
    assert grad.sum() == 6 and (grad[[0, 3, 1], [0, 1, 2]] == 1).all()
    made = gradient_of(operators.get("SequenceLast"), p)
    assert {entry.index for entry in made.shape_reads if entry.kind == "input"} == {0}


@pytest.mark.parametrize(
    ("name", "length"), [*product(NAMES, (-1, np.nan)), ("SequenceLast", 5), ("SequenceReverse", 5)]
)
def test_a_length_outside_is_an_error(name: str, length: float) -> None:
    with pytest.raises(IndexOutOfBoundsError, match=rf"\[{name}\] sequence_length: expected [01] to 4"):
        run(name, [np.zeros((4, 1, 2)), np.array([length])], use_sequence_length=True)


def test_a_mask_may_be_longer_than_the_sequence() -> None:
    data = np.arange(8.0).reshape(4, 2)
    masked = run("SequenceMask", [data, np.array([9, 1])], use_sequence_length=True)
    np.testing.assert_array_equal(masked, data * [[1, 1], [1, 0], [1, 0], [1, 0]])


@pytest.mark.parametrize("name", NAMES)
def test_shapes(name: str) -> None:
    op = operators.get(name)
    p = op.Param(use_sequence_length=True)
    inputs, _ = infer_shapes(op, p, [(4, 3, 2), None])
    assert inputs[1] == (3,)
    with pytest.raises(ShapeError, match="at least 2 dimensions"):
        infer_shapes(op, p, [(4,), None])
    with pytest.raises(ShapeError, match="sequence_length"):
        infer_shapes(op, p, [(4, 3), (4,)])
