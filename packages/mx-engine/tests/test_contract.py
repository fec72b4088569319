# SPDX-License-Identifier: Apache-2.0
"""The contract that every engine fulfils, on each of ours."""

from __future__ import annotations

import pytest

import mx_engine
from mx_core.testing import EngineContract

pytestmark = pytest.mark.timeout(120)


class TestThreadedEnginePerDevice(EngineContract):
    def make_engine(self) -> mx_engine.Engine:
        return mx_engine.create("ThreadedEnginePerDevice", workers=3)


class TestThreadedEngine(EngineContract):
    def make_engine(self) -> mx_engine.Engine:
        return mx_engine.create("ThreadedEngine", workers=1)


class TestNaiveEngine(EngineContract):
    def make_engine(self) -> mx_engine.Engine:
        return mx_engine.create("NaiveEngine")
