# SPDX-License-Identifier: Apache-2.0
"""Densities and their gradients equal their references, also where nothing is probable."""

from __future__ import annotations

import numpy as np
import pytest
from plans import array, verify

from mx_core import operators

NAMES = sorted(name for name in operators.names() if name.startswith("_random_pdf_"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_log", [True, False])
@pytest.mark.parametrize(
    ("batch", "more"), [((3,), (200,)), ((), (5,)), ((2, 3), (4, 1)), ((0,), (2,)), ((3,), ())]
)
def test_density(
    name: str, is_log: bool, batch: tuple[int, ...], more: tuple[int, ...], rng: np.random.Generator
) -> None:
    event = (4,) if "dirichlet" in name else ()
    count = len(operators.get(name).arguments) - 1
    sample = rng.uniform(0.1, 0.9, (*batch, *more, *event)).astype(np.float32)
    parameters = [(0.5 + i + np.abs(array(rng, (*batch, *event)))).astype(np.float32) for i in range(count)]
    if name.endswith("binomial"):
        sample = np.round(sample * 5)
        parameters[1] = parameters[1] / 6
    verify(name, {"is_log": is_log}, [sample, *parameters], rtol=2e-5)
    head = array(rng, (*batch, *more))
    verify(f"_backward{name}", {"is_log": is_log}, [head, sample, *parameters], rtol=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_impossible_values(name: str, rng: np.random.Generator) -> None:
    event = (2,) if "dirichlet" in name else ()
    count = len(operators.get(name).arguments) - 1
    values = np.array([0, -1, np.inf, np.nan, 1e30, 1], np.float32)
    sample = np.broadcast_to(values[:, None] if event else values, (6, *event)).copy()[None]
    parameters = [np.broadcast_to(np.float32(v), (1, *event)).copy() for v in (0, 1)][:count]
    verify(name, {"is_log": True}, [sample, *parameters])
    verify(f"_backward{name}", {}, [array(rng, (1, 6)), sample, *parameters])
