# SPDX-License-Identifier: Apache-2.0
"""Callbacks and monitors see, and log, what they saw and logged in MXNet 1.9.1."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mx_core import cpu
from mx_io import io
from mx_ndarray import nd
from mx_symbol import sym
from mx_train import callback, metric, module, monitor, optimizer
from testkit import fit_programs
from testkit.oracle import ORACLE

RECORDED = json.loads((ORACLE / "training" / "fitting.json").read_text())
MX = SimpleNamespace(  # the parts of mx that the programs use; a module sums itself where it has no store
    io=io, nd=nd, sym=sym, callback=callback, metric=metric, mod=module, mon=monitor, optimizer=optimizer, cpu=cpu,
    sums_only=None,
)  # fmt: skip
NUMBER = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?|nan")


def near(expected: Any) -> Any:
    """What is equal to a recorded value but for the last digits."""
    if isinstance(expected, list):
        return [near(each) for each in expected]
    return (
        pytest.approx(expected, rel=1e-4, abs=5e-6, nan_ok=True) if isinstance(expected, float) else expected
    )


def split(text: str) -> tuple[str, list[float]]:
    """A line without its numbers, and them; how wide an array prints them does not matter."""
    return re.sub(r"\s*([\[\]\s])\s*", r"\1", NUMBER.sub("#", text)), [
        float(found) for found in NUMBER.findall(text)
    ]


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_seen_of_a_training_is_what_mxnet_recorded(name: str, tmp_path: Path) -> None:
    found = fit_programs.run(MX, name, str(tmp_path))
    expected = RECORDED[name]
    assert [event[0] for event in found] == [event[0] for event in expected]
    names: set[str] = set()
    for here, there in zip(found, expected, strict=True):
        if here[0] == "log":
            (line, numbers), (recorded, theirs) = split(here[1]), split(there[1])
            assert (line, numbers) == (recorded, near(theirs))
            continue
        if here[0] == "batch":  # locals may have more names
            names = names if here[4] == "as before" else set(here[4])
            recorded_names = set() if there[4] == "as before" else set(there[4])
            assert recorded_names <= names
            here, there = ([*event[:4], *event[5:]] for event in (here, there))
        assert here == near(there)
