# SPDX-License-Identifier: Apache-2.0
"""Everything that runs on a GPU, on the fake driver: memory, copies, streams, plans."""

from __future__ import annotations

import pytest
from fake_machine import Machine


@pytest.mark.timeout(300)
@pytest.mark.parametrize("delay", ["0", "300"], ids=["prompt", "slow"])
@pytest.mark.parametrize("name", ["plans", "memory"])
def test_on_gpu(name: str, delay: str, machine: Machine) -> None:
    machine.check(name, FAKE_CUDA_DELAY=delay)
