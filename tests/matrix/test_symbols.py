# SPDX-License-Identifier: Apache-2.0
"""Every operator in a bound graph computes what the same call computes on arrays, gradients and states included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import dtypes, operators
from mx_core.context import cpu
from mx_core.operator import gradient_of
from mx_core.testing.case import Case
from mx_ndarray import NDArray, autograd, nd, random
from mx_ndarray.operator_functions import function
from mx_symbol import Symbol
from mx_symbol.graph import Entry, Node, auxiliary_variables
from testkit import applications

SLOW_APPLICATIONS = 5
TOLERANCE = {"float16": 5e-3, "bfloat16": 4e-2, "float32": 2e-5, "float64": 1e-10}


def arrays_of(case: Case) -> list[NDArray]:
    """New arrays with the inputs of a case."""
    return [nd.array(x, dtype=dtypes.name(dtypes.code(x.dtype))) for x in case.inputs]


def floating(array: NDArray) -> bool:
    """Whether a gradient can be taken of it."""
    return dtypes.name(dtypes.code(array.dtype)) in dtypes.FLOATING


def out_grads(outputs: list[NDArray], number: int) -> list[NDArray]:
    """Gradients to start with."""
    rng = np.random.default_rng(number)
    return [nd.array(rng.normal(size=x.shape), dtype=dtypes.name(dtypes.code(x.dtype))) for x in outputs]


def on_arrays(case: Case, number: int, differentiated: bool) -> list[list[NDArray]]:
    """Outputs, inputs afterwards, and gradients, of the imperative call."""
    random.seed(number)
    inputs = arrays_of(case)
    leaves = [x for x in inputs[: case.n_inputs] if differentiated and floating(x)]
    for leaf in leaves:
        leaf.attach_grad()
    with autograd.record(case.is_train) if leaves else autograd.pause(case.is_train):
        made = function(case.op.name)(*inputs, **case.params.attrs())
    outputs = [made] if isinstance(made, NDArray) else list(made)
    if leaves:
        autograd.backward(outputs, out_grads(outputs, number))
    return [outputs, inputs, [leaf.grad for leaf in leaves]]


def in_a_graph(case: Case, number: int, differentiated: bool, request: str) -> list[list[NDArray]]:
    """The same of a bound graph of that one node."""
    inputs = arrays_of(case)
    variables = [Node(None, None, f"input{i}") for i in range(len(inputs))]
    node = Node(case.op, case.params, "node", None, [Entry(v) for v in variables])
    symbol = Symbol([Entry(node, i) for i in range(node.num_visible_outputs)])
    states = auxiliary_variables([*variables, node])
    named = dict(zip(variables, inputs, strict=True))
    args = {v.name: x for v, x in named.items() if v not in states}
    wanted = variables[: case.n_inputs] if differentiated else []
    grads = {
        v.name: nd.zeros(x.shape, dtype=x.dtype) for v, x in named.items() if v in wanted and floating(x)
    }
    aux = {v.name: x for v, x in named.items() if v in states}
    random.seed(number)
    executor = symbol.bind(cpu(), args, grads, dict.fromkeys(grads, request), aux)
    outputs = executor.forward(is_train=case.is_train)
    if grads:
        executor.backward(out_grads(outputs, number))
    return [list(outputs), inputs, list(grads.values())]


def public() -> list[str]:
    """Operators that a user can call and that give something."""
    found = (operators.get(name) for name in applications.all_operators())
    return [op.name for op in found if op.backward_of is None and not op.name.startswith("_backward")]


def check(name: str, number: int, dtype: str = "float32", request: str = "write") -> bool:
    """Compares one application; False when there is none."""
    case = applications.make(operators.get(name), number, dtype, most=64)
    if case is None or not case.outputs:
        return False
    differentiated = case.is_train and not gradient_of(case.op, case.params).is_zero
    expected = on_arrays(case, number, differentiated)
    for place, left, right in zip(
        ("output", "input", "gradient"),
        expected,
        in_a_graph(case, number, differentiated, request),
        strict=True,
    ):
        for i, (a, b) in enumerate(zip(left, right, strict=True)):
            compare(f"{case.describe()}: {place} {i}", a, b, case.op.is_random)
    return True


def compare(what: str, array: NDArray, other: NDArray, is_random: bool) -> None:
    """Shapes, types and values."""
    assert (array.shape, array.dtype) == (other.shape, other.dtype), what
    if is_random:
        return
    x: Any = array.asnumpy()
    tolerance = TOLERANCE.get(dtypes.name(dtypes.code(array.dtype)), 0)
    wide = np.float64 if tolerance else x.dtype
    np.testing.assert_allclose(
        other.asnumpy().astype(wide), x.astype(wide), rtol=tolerance, atol=tolerance, err_msg=what
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", [applications.SEED])
def test_a_graph_computes_what_the_call_computes(seed: int) -> None:
    """One application of each operator."""
    assert sum(check(name, seed) for name in public()) > 300


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of references, for numbers out of range
@pytest.mark.parametrize("name", public())
def test_a_graph_computes_what_the_call_computes_often(name: str) -> None:
    for number in range(2000, 2000 + SLOW_APPLICATIONS):
        for dtype in ("float32", "float64", "float16", "int32"):
            check(name, number, dtype, "add" if number % 2 else "write")
