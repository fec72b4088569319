# SPDX-License-Identifier: Apache-2.0
"""Allocations in the profile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mx_core import services
from mx_engine import profiler

pytestmark = pytest.mark.timeout(60)

Trace = Callable[[Path, str], list[dict[str, Any]]]


def test_memory_is_recorded_where_it_is_asked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch, trace: Trace, storage: Any
) -> None:
    monkeypatch.setattr(services, "made", lambda kind: [storage, object()])
    profiler.set_config(filename=str(path), profile_memory=True)
    profiler.set_state("run")
    assert storage.capacity > 0
    text = profiler.dumps()
    assert re.search(r"allocated: weights +1 +64 +64", text)
    assert re.search(r"in use: cpu/0 +3 +8 +72", text)
    sizes = json.loads(profiler.dumps(format="json"))["Memory"]
    held = {"Count": 3, "Min": 8, "Max": 72, "Avg": 48}
    assert sizes["Device Storage"] == {"Memory: cpu/0": held}
    assert sizes["Allocations"]["weights"] == {"Count": 1, "Min": 64, "Max": 64, "Avg": 64, "Total": 64}
    ascending = json.loads(profiler.dumps(format="json", sort_by="max", ascending=True))["Memory"][
        "Allocations"
    ]
    assert [line["Max"] for line in ascending.values()] == sorted(line["Max"] for line in ascending.values())
    assert list(ascending)[-1] == "weights"
    profiler.dump()
    assert storage.capacity == 0
    assert [(e["name"], e["args"]) for e in trace(path, "C")] == [
        ("memory of cpu/0", {"in use": 64, "pooled": 0}),
        ("memory of cpu/0", {"in use": 72, "pooled": 0}),
        ("memory of cpu/0", {"in use": 8, "pooled": 64}),
    ]


def test_memory_is_not_recorded_otherwise(path: Path, monkeypatch: pytest.MonkeyPatch, storage: Any) -> None:
    monkeypatch.setattr(services, "made", lambda kind: [storage])
    profiler.set_state("run")
    assert storage.capacity == 0
    assert "memory" not in profiler.dumps()
