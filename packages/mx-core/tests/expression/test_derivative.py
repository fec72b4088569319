# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from mx_core import expression as X
from mx_core.expression.derivative import BINARY, UNARY

DOMAIN = {
    "ARCSIN": (-0.8, 0.8), "ARCCOS": (-0.8, 0.8), "ARCTANH": (-0.8, 0.8), "ERFINV": (-0.8, 0.8),
    "ARCCOSH": (1.2, 3.0), "POW": (0.5, 2.0), "MOD": (2.1, 2.9), "TAN": (-1.0, 1.0),
}  # fmt: skip


def numeric(made: X.Expression, inputs: list[np.ndarray], i: int, h: float = 1e-6) -> np.ndarray:
    up = [x + h * (j == i) for j, x in enumerate(inputs)]
    down = [x - h * (j == i) for j, x in enumerate(inputs)]
    return (X.evaluate(made, up)[0] - X.evaluate(made, down)[0]) / (2 * h)


def check(made: X.Expression, low: float, high: float) -> None:
    rng = np.random.default_rng(3)
    inputs = [rng.uniform(low, high, 50) for _ in range(made.n_inputs)]
    if made.n_inputs == 2:
        inputs[1] = rng.uniform(max(low, 0.6), max(high, 1.6), 50)
    head = rng.normal(size=50)
    grads = X.evaluate(X.differentiate(made), [head, *inputs])
    for i, grad in enumerate(grads):
        np.testing.assert_allclose(grad, head * numeric(made, inputs, i), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("opcode", list(UNARY), ids=lambda o: o.name)
def test_unary_rules_equal_numeric_gradients(opcode: X.Opcode) -> None:
    low, high = DOMAIN.get(opcode.name, (0.2, 2.4))
    argument = 1 if opcode is X.Opcode.CAST else 0
    check(X.trace(lambda x: x.builder.emit(opcode, x, argument=argument), 1), low, high)


@pytest.mark.parametrize("opcode", list(BINARY), ids=lambda o: o.name)
def test_binary_rules_equal_numeric_gradients(opcode: X.Opcode) -> None:
    low, high = DOMAIN.get(opcode.name, (0.2, 2.4))
    made = X.trace(lambda x, y: x.builder.emit(opcode, x, y), 2)
    if opcode is X.Opcode.MOD:
        made = X.trace(lambda x, y: (x % (y + 3)) * y, 2)
    check(made, low, high)


def test_shared_values_and_where() -> None:
    check(X.trace(lambda x: X.where(x > 1, X.exp(x) * x, X.sin(x) / x), 1), 0.2, 2.4)


def test_a_gradient_can_be_differentiated_again() -> None:
    first = X.differentiate(X.trace(lambda x: X.tanh(x) * x, 1))
    check(first, 0.2, 2.0)
    second = X.differentiate(first, wrt=[1])
    x, one = np.linspace(0.1, 2, 9), np.ones(9)
    got = X.evaluate(second, [one, one, x])[0]
    t = np.tanh(x)
    np.testing.assert_allclose(got, (1 - t * t) * (2 - 2 * x * t), rtol=1e-12)


def test_gradient_of_an_unused_input_is_zero() -> None:
    made = X.differentiate(X.trace(lambda x, y: x * 2, 2))
    grads = X.evaluate(made, [np.ones(3), np.ones(3), np.ones(3)])
    np.testing.assert_array_equal(grads[1], np.zeros(3))
