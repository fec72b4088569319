# SPDX-License-Identifier: Apache-2.0
"""Plans against results recorded from Apache MXNet 1.9.1: outputs, gradients, auxiliary states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import layer_plans
import numpy as np
import pytest

from mx_core import operators
from mx_core.operator import gradient_of, infer_shapes

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "conformance.json").read_text())


@pytest.fixture(scope="module")
def recorded() -> Any:
    with np.load(DATA / "conformance.npz") as arrays:
        yield dict(arrays)


def _outputs(name: str, p: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    op = operators.get(name)
    _, shapes = infer_shapes(op, p, [i.shape for i in inputs])
    return [np.empty(s, np.float32) for s in shapes]


def _apply(name: str, p: Any, inputs: list[np.ndarray], is_train: bool) -> list[np.ndarray]:
    outputs = _outputs(name, p, inputs)
    plan = layer_plans.prepare(operators.get(name), p, inputs, outputs, is_train)
    assert plan is not None
    layer_plans.run(plan, inputs, outputs, is_train=is_train, scalars=p.scalars)
    return outputs


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_recorded_case(case: dict[str, Any], recorded: dict[str, np.ndarray]) -> None:
    def array(kind: str, name: object) -> np.ndarray | None:
        return recorded.get(f"{case['id']}/{kind}/{name}")

    op = operators.get(case["op"])
    p = op.Param.parse(case["attrs"], op=op.name)
    inputs = [np.array(array("arg", name)) for name in case["arguments"]]
    inputs += [np.array(array("aux", name)) for name in case["aux"]]
    outputs = _apply(op.name, p, inputs, case["is_train"])
    np.testing.assert_allclose(outputs[0], array("out", 0), rtol=1e-4, atol=1e-5)
    for name, state in zip(case["aux"], inputs[len(case["arguments"]) :], strict=True):
        np.testing.assert_allclose(state, array("aux_after", name), rtol=1e-4, atol=1e-5)

    gradient = gradient_of(op, p)
    values: dict[str, list[Any]] = {"out_grad": [array("head_grad", 0)], "input": inputs, "output": outputs}
    made: list[list[np.ndarray]] = []

    def value(entry: Any) -> np.ndarray:
        return made[entry.index][entry.output] if entry.kind == "node" else values[entry.kind][entry.index]

    for node in gradient.nodes:
        made.append(_apply(node.op, node.params, [value(e) for e in node.inputs], case["is_train"]))
    for name, entry in zip(case["arguments"], gradient.grads, strict=True):
        wanted = array("grad", name)
        if entry is not None and wanted is not None:
            np.testing.assert_allclose(value(entry), wanted, rtol=1e-4, atol=1e-5, err_msg=name)
