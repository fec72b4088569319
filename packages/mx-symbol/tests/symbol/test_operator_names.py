# SPDX-License-Identifier: Apache-2.0
"""Names of inputs, states and outputs of operators whose inputs are made, recorded from MXNet 1.9.1."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mx_core import operators
from mx_symbol import sym
from mx_symbol.runtime.input_names import monitored_input_names
from testkit.oracle import ORACLE, cases

MONITORED = json.loads((ORACLE / "names" / "monitored.json").read_text())
RECORDED = json.loads((ORACLE / "names" / "inputs.json").read_text())


@pytest.mark.parametrize("case", RECORDED, ids=[f"{case['op']}-{i}" for i, case in enumerate(RECORDED)])
def test_names(case: dict[str, Any]) -> None:
    space = sym._internal if case["op"].startswith("_") else sym
    made = getattr(space, case["op"])(name="op", **case["attrs"])
    assert made.list_arguments() == case["arguments"]
    assert made.list_auxiliary_states() == case["aux"]
    assert made.list_outputs() == case["outputs"]


@pytest.mark.parametrize("sample_type", ["nearest", "bilinear"])
def test_what_is_added_to_a_map_is_initialised_as_interpolation(sample_type: str) -> None:
    made = sym.UpSampling(
        sym.Variable("data"), sym.Variable("w"), scale=2, sample_type=sample_type, num_filter=1, num_args=2
    )
    assert made.attr_dict()["w"] == {"__init__": '["bilinear", {}]'}


@pytest.mark.parametrize("name", sorted(name for name in MONITORED if operators.find(name)))
def test_names_that_a_monitor_shows(name: str) -> None:
    """Of `Activation` and most simple operators MXNet has no names of inputs, so that monitors count them."""
    case = next(case for case in cases() if case["op"] == name)
    given = [sym.Variable(each) for each in case["arguments"] + case["aux"]]
    space = sym._internal if name.startswith("_") else sym
    [node] = {entry.node for entry in getattr(space, name)(*given, name="op", **case["attrs"]).entries}
    names = monitored_input_names(node)
    assert list(names[: len(MONITORED[name])]) == MONITORED[name]


def test_import_star_brings_the_functions() -> None:
    found: dict[str, Any] = {}
    exec("from mx_symbol.sym import *", found)
    made = found["Convolution"](kernel=(3, 3), num_filter=2, name="made")
    assert made.list_arguments() == ["made_data", "made_weight", "made_bias"]
    assert found["var"] is sym.var and found["linalg"] is sym.linalg
    exec("from mx_symbol.sym.contrib import *", found)
    assert "box_nms" in found and not [
        name for name in found if name.startswith("_") and name != "__builtins__"
    ]
