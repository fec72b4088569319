# SPDX-License-Identifier: Apache-2.0
"""Updates with a rate per element, of numbers that are not finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("given", "expected"),  # weight, gradient, z, n; weight, z, n as MXNet 1.9.1 has them
    [
        ((1, NAN, 0, 0), (NAN, NAN, NAN)),
        ((NAN, 1, 0, 0), (NAN, NAN, 1)),
        ((1, 0.5, NAN, 0), (NAN, NAN, 0.25)),
        ((1, INF, 0, 0), (NAN, NAN, INF)),
        ((-1, INF, 0, 0), (NAN, INF, INF)),
        ((1, 0.5, 0, INF), (NAN, NAN, INF)),
        ((1, 0.001, 0, 0), (0, -0.009, 1e-6)),
    ],
)
def test_ftrl_hides_no_divergence(run: Any, given: tuple[float, ...], expected: tuple[float, ...]) -> None:
    with np.errstate(invalid="ignore"):
        found = run("ftrl_update", [np.float32([x]) for x in given], lr=0.1)
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-5)
