# SPDX-License-Identifier: Apache-2.0
"""Bound symbols against cases recorded from Apache MXNet 1.9.1, which lie beside the operators."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.functions import function

DATA = Path(__file__).parents[2] / "mx-operators" / "tests" / "data" / "conformance"
LOOSE = frozenset(("gamma", "gammaln", "erfinv", "RNN"))
#: MXNet's recorded gradient of selu is wrong: it scales an output that is scaled already
DEFECTS = frozenset(("LeakyReLU-162", "LeakyReLU-163"))


def cases() -> list[Any]:
    found = []
    for path in sorted(DATA.glob("*.json")):
        for case in json.loads(path.read_text()):
            if not case.get("imperative_only"):
                found.append(pytest.param(case, id=case["id"]))
    return found or [pytest.param(None, marks=pytest.mark.skip("the recorded cases are not here"))]


@cache
def arrays(family: str) -> dict[str, Any]:
    with np.load(DATA / f"{family}.npz") as file:
        return dict(file)


def compose(case: dict[str, Any]) -> sym.Symbol:
    op = operators.get(case["op"])
    attrs = dict(case["attrs"])
    names = [*case["arguments"], *case["aux"]]
    if op.variadic is not None:
        attrs.pop(op.variadic, None)
        return function(case["op"])(*map(sym.Variable, names), name="op", **attrs)
    params = op.Param.parse(attrs, op=op.name)
    inputs = dict(zip((*op.inputs(params), *op.aux(params)), map(sym.Variable, names), strict=True))
    return function(case["op"])(name="op", **inputs, **attrs)


def close(got: Any, expected: Any, op: str) -> None:
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    rtol = 1e-2 if expected.dtype == np.float16 else 1e-3 if op in LOOSE else 1e-4
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=max(1e-5, rtol / 10))


@pytest.mark.parametrize("case", cases())
def test_a_bound_symbol_equals_the_recorded_case(case: dict[str, Any]) -> None:
    op, key, data = case["op"], case["id"], arrays(case["family"])
    if operators.find(op) is None:
        pytest.skip(f"{op} is not declared")

    def array(kind: str, name: str) -> Any:
        values = data[f"{key}/{kind}/{name}"]
        return nd.array(values, dtype=values.dtype)

    args = {name: array("arg", name) for name in case["arguments"]}
    aux = {name: array("aux", name) for name in case["aux"]}
    wanted = [name for name in args if case["grad_req"].get(name, "null") != "null"]
    grads = {name: nd.zeros(args[name].shape, dtype=args[name].dtype) for name in wanted}
    executor = compose(case).bind(None, args, grads, case["grad_req"], aux)
    outputs = executor.forward(is_train=case["is_train"])
    for i in range(case["outputs"]):
        close(outputs[i].asnumpy(), data[f"{key}/out/{i}"], op)
    if f"{key}/head_grad/0" in data and key not in DEFECTS:
        executor.backward([array("head_grad", str(i)) for i in range(case["outputs"])])
        for name in wanted:
            close(grads[name].asnumpy(), data[f"{key}/grad/{name}"], op)
    for name, state in aux.items():
        close(state.asnumpy(), data[f"{key}/aux_after/{name}"], op)
