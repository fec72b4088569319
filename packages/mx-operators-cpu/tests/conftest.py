# SPDX-License-Identifier: Apache-2.0
"""What tests of this folder share."""

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """A seeded generator."""
    return np.random.default_rng(0)
