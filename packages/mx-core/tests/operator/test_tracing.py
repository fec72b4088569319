# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in the function of an elementwise operator is said of the function and its line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import context, kernels, operators
from mx_core import expression as X
from mx_core.errors import ArgumentError, OperatorError, PluginError
from mx_core.operator import Elementwise, Params, SimpleOp, opt
from mx_core.operator.tracing import expression_of

HERE = Path(__file__).name


class SteepParam(Params):
    """How steep."""

    beta: float = opt(1.0, "steepness", runtime=True)


def helped(data: Any) -> Any:
    return data.shape


FAULTS: dict[str, tuple[Any, str, str]] = {
    "branches": (
        lambda self, p, data: data if data > 0 else -data,
        "lambda self, p, data: data if data > 0",
        "the truth of a traced value is not known when the expression is made: write where",
    ),
    "uses_numpy": (
        lambda self, p, data: np.exp(data),
        "np.exp(data)",
        "numpy.exp got a traced value, which has no number yet: use mx_core.expression.exp instead",
    ),
    "uses_numpy_where": (
        lambda self, p, data: np.where(data > 0, data, 0),
        "np.where(",
        "numpy.where got a traced value, which has no number yet: use mx_core.expression.where instead",
    ),
    "makes_an_array": (lambda self, p, data: np.asarray(data), "np.asarray", "numpy.array got a traced value"),
    "adds_by_numpy": (lambda self, p, data: np.add(data, 1), "np.add", "use Python's operators and the functions"),
    "uses_math": (lambda self, p, data: math.exp(data), "math.exp", "use the functions of mx_core.expression"),
    "branches_on_beta": (lambda self, p, data: data * max(p.beta, 1), "max(p.beta", "write where"),
    "raises": (lambda self, p, data: {}["k"], '{}["k"]', "KeyError: 'k'"),
    "leaves": (lambda self, p, data: exit(), "exit()", "SystemExit: None"),
    "asks_for_a_shape": (lambda self, p, data: helped(data), "data.shape", "has no 'shape': derive from Operator"),
    "casts_to_nothing": (lambda self, p, data: X.cast(data, "flaot32"), "flaot32", "unknown element type"),
    "gives_nothing": (lambda self, p, data: None, "gives_nothing", "cannot use a NoneType"),
    "gives_two": (lambda self, p, data: [data, data], "gives_two", r"it gives 2 values, expected 1 \(output\)"),
    "takes_nothing": (lambda self, p, data: self.function(p), "self.function(p)", "TypeError: "),
}  # fmt: skip


def declared(name: str, function: Any, **members: Any) -> type[SimpleOp[Any]]:
    return type("Faulty", (SimpleOp,), {"name": name, "Param": SteepParam, "function": function, **members})


@pytest.mark.parametrize("name", FAULTS)
def test_the_function_and_the_line_are_named(name: str) -> None:
    function, source, message = FAULTS[name]
    op = declared("test_faulty", function)()
    with pytest.raises(OperatorError, match=message) as caught:
        op.expression(SteepParam())
    said = str(caught.value)
    assert said.startswith("[test_faulty] Faulty.<lambda> cannot be traced, ")
    assert f"{HERE}:" in said and source in said.replace("\\'", "'")


def test_the_gradient_is_named_too() -> None:
    def gradient_function(self: Any, p: Any, out_grad: Any, data: Any) -> Any:
        if data > 0:
            return out_grad
        return -out_grad

    op = declared("test_faulty", lambda self, p, data: abs(data), gradient_function=gradient_function)()
    with pytest.raises(
        OperatorError,
        match=rf"Faulty\.gradient_function cannot be traced, .*{HERE}:\d+ \(if data > 0:\): the truth of",
    ):
        op.backward_expression(SteepParam())


def test_a_refusal_of_its_own_passes() -> None:
    def function(self: Any, p: Any, data: Any) -> Any:
        raise ArgumentError("[test_faulty] beta: expected less")

    with pytest.raises(ArgumentError, match="expected less"):
        declared("test_faulty", function)().expression(SteepParam())


def test_numbers_of_numpy_are_numbers() -> None:
    def function(self: Any, p: Any, data: Any) -> Any:
        return (
            np.float64(2) * data
            + np.float32(1)
            - np.int64(3) / (data + np.float32(0.5))
            + (np.float64(1) < data)
        )

    (made,) = declared("test_numbers", function)().reference(SteepParam(), [np.array([2.0])], None)  # type: ignore[arg-type]
    np.testing.assert_allclose(made, 4 + 1 - 3 / 2.5 + 1)


def test_no_kernel_is_blamed(site: Any, recwarn: pytest.WarningsRecorder) -> None:
    site.add(
        "acme",
        """
        from mx_core.operator import SimpleOp

        class Branching(SimpleOp):
            name = "branching"
            def function(self, p, data):
                if data > 0:
                    return data
                return -data

        def generator(expression, call):
            raise AssertionError("never asked")

        def mx_register_operators(registry):
            registry.add(Branching)

        def mx_register_kernel_generators(registry):
            registry.add("cpu", "made", generator)
        """,
        distribution="acme-ops",
    )
    op, spec = operators.get("branching"), kernels.TensorSpec((3,), 0)
    with pytest.raises(
        OperatorError,
        match=r"^\[branching\] of plug-in 'acme' \(acme-ops 0\.1\.0\) Branching\.function cannot be traced, "
        r".*fake_acme_ops_acme\.py:\d+ \(if data > 0:\): the truth",
    ) as caught:
        kernels.prepare(op, op.Param(), [spec], [spec], context.cpu())
    assert not getattr(caught.value, "__notes__", []) and not recwarn.list


def test_an_expression_that_raises_sets_no_generator_aside(
    site: Any, recwarn: pytest.WarningsRecorder
) -> None:
    site.add(
        "acme",
        """
        from mx_core.operator import Elementwise

        class Looked(Elementwise):
            name = "looked_up"
            differentiable = False
            def expression(self, p):
                return {}["formula"]

        def generator(expression, call):
            raise AssertionError("never asked")

        def mx_register_operators(registry):
            registry.add(Looked)

        def mx_register_kernel_generators(registry):
            registry.add("cpu", "made", generator)
        """,
        distribution="acme-ops",
    )
    op, spec = operators.get("looked_up"), kernels.TensorSpec((3,), 0)
    at = r"fake_acme_ops_acme\.py:\d+ \(return {}\[\"formula\"\]\): KeyError: 'formula'"
    message = rf"^\[looked_up\] of plug-in 'acme' \(acme-ops 0\.1\.0\) Looked\.expression fails, .*{at}"
    with pytest.raises(OperatorError, match=message):
        kernels.prepare(op, op.Param(), [spec], [spec], context.cpu())
    with pytest.raises(OperatorError, match=message):
        op.reference(op.Param(), [np.ones(3)], None)  # type: ignore[arg-type]
    assert not recwarn.list


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda x: x,
            "it gives a function, expected an Expression or None; mx_core.expression.trace makes one",
        ),
        (
            X.trace(lambda x, y: x + y, 2),
            "it is of 2 inputs, 0 run-time parameters and 1 outputs; the operator has 1 inputs, 1 run-time",
        ),
    ],
)
def test_an_expression_of_another_form_is_refused(made: Any, message: str) -> None:
    members = {"name": "test_faulty", "Param": SteepParam, "expression": lambda self, p: made}
    op = type("Faulty", (Elementwise,), {**members, "differentiable": False})()
    with pytest.raises(OperatorError, match=message) as caught:
        expression_of(op, SteepParam())
    assert str(caught.value).startswith("[test_faulty] Faulty.<lambda> is wrong, ")


def test_a_function_without_inputs_is_refused_when_it_is_declared() -> None:
    with pytest.raises(
        PluginError, match=r"\[test_lonely\] function takes \(self, data\); expected \(self, p, data"
    ):
        declared("test_lonely", lambda self, data: data)
