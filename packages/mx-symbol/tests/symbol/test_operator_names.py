# SPDX-License-Identifier: Apache-2.0
"""Names of inputs, states and outputs of operators whose inputs are made, recorded from MXNet 1.9.1."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mx_symbol import sym
from testkit.oracle import ORACLE

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
