# SPDX-License-Identifier: Apache-2.0
"""MXNet's former names of functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mx_core import services
from mx_core.errors import ArgumentError
from mx_engine import profiler

pytestmark = pytest.mark.timeout(60)

Trace = Callable[[Path, str], list[dict[str, Any]]]


def test_names_of_old_scripts(tmp_path: Path, trace: Trace) -> None:
    target = tmp_path / "old.json"
    with pytest.warns(DeprecationWarning, match="profiler.set_config"):
        profiler.profiler_set_config(mode="all", filename=str(target))
    with pytest.warns(DeprecationWarning, match="profiler.set_state"):
        profiler.profiler_set_state("run")
    services.engine().push(lambda: None, name="seen")
    services.engine().wait_for_all()
    with pytest.warns(DeprecationWarning, match="profiler.dump"):
        profiler.dump_profile()
    assert [e["name"] for e in trace(target, "X")] == ["seen"]
    services.engine().push(lambda: None, name="unseen")  # the dump ended the recording
    services.engine().wait_for_all()
    profiler.dump()
    assert [e["name"] for e in trace(target, "X")] == ["seen"]
    with pytest.warns(DeprecationWarning), pytest.raises(ArgumentError, match="'symbolic' or 'all'"):
        profiler.profiler_set_config(mode="none")
