# SPDX-License-Identifier: Apache-2.0
"""The references against cases recorded from Apache MXNet 1.9.1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, operators
from mx_core.operator import infer_shapes, infer_types
from testkit import replay
from testkit.oracle import DEFECTS, arrays, cases, close

IDS = [case["id"] for case in cases()]


@pytest.mark.parametrize("case", cases(), ids=IDS)
def test_reference_equals_recorded_case(case: dict[str, Any]) -> None:
    data, key, op = arrays(case["family"]), case["id"], case["op"]
    attrs = dict(case["attrs"])
    declared = operators.get(op)
    if declared.variadic and declared.variadic not in attrs:
        attrs[declared.variadic] = len(case["arguments"])
    names = [*case["arguments"]]
    inputs = [data[f"{key}/arg/{n}"] for n in names] + [data[f"{key}/aux/{n}"] for n in case.get("aux", [])]
    p = declared.Param.parse(attrs, op=op)
    if "output_names" in case:
        visible = declared.outputs(p)[: declared.num_visible_outputs(p)]
        assert [f"op_{output}" for output in visible] == case["output_names"]
    _, shapes = infer_shapes(declared, p, [x.shape for x in inputs])
    _, types = infer_types(declared, p, [dtypes.code(x.dtype) for x in inputs])
    with np.errstate(all="ignore"):
        results = replay.forward(op, attrs, inputs, case.get("is_train", False))
    outputs = results[: len(declared.outputs(p))]
    if not declared.dynamic_output:
        assert [r.shape for r in outputs] == list(shapes)
    assert [dtypes.code(r.dtype) for r in outputs] == list(types)
    for i in range(case["outputs"]):
        close(outputs[i], data[f"{key}/out/{i}"], op)
    for name, new in zip(case.get("aux", []), results[len(outputs) :], strict=False):
        close(new, data[f"{key}/aux_after/{name}"], op)
    if case.get("imperative_only"):
        for index, new in zip(declared.mutated_inputs(p), results[len(outputs) :], strict=True):
            close(new, data[f"{key}/arg_after/{names[index]}"], op)
        return
    if f"{key}/head_grad/0" not in data or key in DEFECTS:
        return
    heads = [data.get(f"{key}/head_grad/{i}", np.zeros_like(o)) for i, o in enumerate(outputs)]
    with np.errstate(all="ignore"):
        grads = replay.backward(op, attrs, inputs, outputs, heads, case.get("is_train", False))
    for i, name in enumerate(names):
        if case["grad_req"].get(name) == "write":
            grad = np.zeros_like(inputs[i]) if grads[i] is None else grads[i]
            close(grad, data[f"{key}/grad/{name}"], op)
