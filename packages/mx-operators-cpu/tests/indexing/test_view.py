# SPDX-License-Identifier: Apache-2.0
"""Views: what part of an array is looked at, in which order."""

from __future__ import annotations

import numpy as np
import pytest
from plans import array, verify

from mx_core import dtypes
from mx_core.errors import ShapeError
from mx_core.kernels import TensorSpec
from mx_operators_cpu.indexing.view import View
from mx_operators_cpu.library import native


def test_a_step_over_one_element_is_no_stride() -> None:
    part = View.of((3, 4)).part(0, 2, 2**63 - 1, 1).part(1, 1, 2, 2)
    assert (part.shape, part.strides, part.offset) == ((1, 2), (4, 2), 9)


def test_slices_with_steps_wider_than_any_address(rng: np.random.Generator) -> None:
    verify("slice", {"begin": (1, 1), "end": (3, 3), "step": (2**63 - 1, 2**62)}, [array(rng, (3, 4))])


def test_strides_that_wrap_around_leave_their_array() -> None:
    move = (0, 0, (3,), (2**62,), (1,), 0, 0)  # the last element would be at 2**63
    with pytest.raises(ShapeError, match="leaves its arrays"):
        native.move_plan([((4,), 0)], [((4,), 0)], [move])


def test_tensors_that_are_not_plain_have_no_plan() -> None:
    plain, laid_out = TensorSpec((2,), 0), TensorSpec((2,), 0, layout=1)
    whole, complex_numbers = TensorSpec((4,), 0), TensorSpec((4,), dtypes.code("complex64"))
    assert native.join_plan([plain, plain], [whole], axis=0) is not None
    assert native.join_plan([plain, laid_out], [whole], axis=0) is None
    assert native.join_plan([plain, plain], [complex_numbers], axis=0) is None
    assert native.join_plan([plain, TensorSpec((2,), 1)], [whole], axis=0) is None  # of two types
