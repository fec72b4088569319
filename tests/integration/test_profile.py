# SPDX-License-Identifier: Apache-2.0
"""A profile of a small network: nodes of its program by name, memory, and what the script called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mx


@pytest.mark.timeout(120)
def test_nodes_memory_and_calls_of_a_network(tmp_path: Path) -> None:
    data = mx.sym.Variable("data")
    hidden = mx.sym.Activation(
        mx.sym.FullyConnected(data, num_hidden=8, name="fc1"), act_type="relu", name="act"
    )
    network = mx.sym.FullyConnected(hidden, num_hidden=3, name="fc2")
    executor = network.simple_bind(mx.cpu(), data=(4, 5))
    path = tmp_path / "profile.json"
    mx.profiler.set_config(filename=str(path), profile_all=True)
    mx.profiler.set_state("run")
    try:
        executor.forward(is_train=True, data=mx.nd.ones((4, 5)))
        executor.outputs[0].asnumpy()
        tables: dict[str, Any] = json.loads(mx.profiler.dumps(format="json"))
        mx.profiler.dump()
    finally:
        mx.profiler.set_state("stop")
        mx.profiler.set_config()
    events = json.loads(path.read_text())["traceEvents"]
    operators = {e["name"]: e for e in events if e["ph"] == "X" and e["cat"] == "operator"}
    assert {"fc1", "fc2"} <= set(operators)
    assert operators["fc1"]["args"]["operator"] == "FullyConnected"
    program = next(e for name, e in operators.items() if name == "Executor")
    assert program["ts"] <= operators["fc1"]["ts"]
    assert program["dur"] >= operators["fc1"]["dur"]
    assert tables["Time"]["operator"]["FullyConnected"]["Count"] == 2
    assert any("forward" in name for name in tables["Time"]["api"])
    assert any(e["ph"] == "C" and "memory" in e["name"] for e in events)
