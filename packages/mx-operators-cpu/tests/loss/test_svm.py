# SPDX-License-Identifier: Apache-2.0
"""Hinge losses against their reference."""

from __future__ import annotations

import numpy as np
import plans
import pytest


@pytest.mark.parametrize("dtype", plans.FLOATS)
@pytest.mark.parametrize("linear", [True, False])
def test_hinges(rng: np.random.Generator, dtype: str, linear: bool) -> None:
    y = plans.array(rng, (6, 5), dtype)
    label = np.array([0, 4, 2.7, -3, 9, -0.5])
    attrs = {"margin": 0.7, "regularization_coefficient": 1.5, "use_linear": linear}
    plans.verify("SVMOutput", attrs, [y, label.astype(y.dtype)])
    plans.verify("_backward_SVMOutput", attrs, [label.astype(y.dtype), y])
