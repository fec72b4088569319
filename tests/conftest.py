# SPDX-License-Identifier: Apache-2.0
"""The garbage collector leaves alone what lives as long as the run: some 20,000 tests."""

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
