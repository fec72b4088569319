# SPDX-License-Identifier: Apache-2.0
"""Views: what part of an array is looked at, in which order."""

from __future__ import annotations

import numpy as np
from plans import array, verify

from mx_operators_cpu.indexing.view import View


def test_a_step_over_one_element_is_no_stride() -> None:
    part = View.of((3, 4)).part(0, 2, 2**63 - 1, 1).part(1, 1, 2, 2)
    assert (part.shape, part.strides, part.offset) == ((1, 2), (4, 2), 9)


def test_slices_with_steps_wider_than_any_address(rng: np.random.Generator) -> None:
    verify("slice", {"begin": (1, 1), "end": (3, 3), "step": (2**63 - 1, 2**62)}, [array(rng, (3, 4))])
