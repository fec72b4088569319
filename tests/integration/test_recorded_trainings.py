# SPDX-License-Identifier: Apache-2.0
"""Whole trainings have the losses of MXNet at each step, as a Module and in Gluon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mx
from testkit import training_programs as programs

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "oracle" / "training" / "trainings.json").read_text()
)


def test_every_training_is_recorded() -> None:
    assert set(RECORDED) == {f"{name}, {style}" for name in programs.TRAININGS for style in programs.STYLES}


@pytest.mark.long
@pytest.mark.parametrize("style", programs.STYLES)
@pytest.mark.parametrize("name", programs.TRAININGS)
def test_losses_are_those_of_mxnet(name: str, style: str) -> None:
    found, expected = programs.run(mx, name, style), RECORDED[f"{name}, {style}"]
    losses = expected["losses"]
    assert len(losses) == programs.STEPS and losses[0] > np.mean(losses[-10:]), "nothing is learnt"
    np.testing.assert_allclose(found["losses"][:20], losses[:20], rtol=1e-3)
    np.testing.assert_allclose(found["losses"], losses, rtol=2e-2)
    if name == "detector":
        assert len(expected["boxes"]) > 0
        np.testing.assert_allclose(found["boxes"], expected["boxes"], rtol=1e-2, atol=1e-3)
