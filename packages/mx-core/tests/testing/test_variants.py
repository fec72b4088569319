# SPDX-License-Identifier: Apache-2.0
"""Operators and kernels that are right on the first example and wrong on another: the checks find them."""

import pytest

from mx_core import plugins
from mx_core.operator import Operator, Params, opt, required
from mx_core.testing.checks.operators import check_kernel, check_operator
from mx_core.testing.variants import variants

HEAD = """
    import numpy as np
    from mx_core.operator import Operator, Params, SimpleOp, opt, required

    class TimesParam(Params):
        times: int = required("factor", lower=1)

    class Times(Operator):
        name = "acme"
        Param = TimesParam
        def infer_shape(self, p, s):
            s.unify(["data", "output"])
        def reference(self, p, inputs, ctx):
            return [p.times * inputs[0]]
        def backward(self, p, out_grad):
            return p.times * out_grad

    class Halves(Operator):
        # every other element of the last axis
        name = "acme"
        differentiable = False
        custom_gradient = True
        def infer_shape(self, p, s):
            data = s.known("data")
            if data is not None:
                if len(data) != 2:
                    raise s.error(f"data: expected two axes, got {data}")
                s.assign("output", (data[0], (data[1] + 1) // 2))
        def reference(self, p, inputs, ctx):
            return [inputs[0][:, ::2].copy()]
"""


def results(site, registry, body):
    """What the check of the operator or the kernel of a plug-in says."""
    site.add("acme", HEAD + body)
    check = check_operator if registry == "operators" else check_kernel
    (entry,) = plugins.registry(registry).items()
    return list(check(entry))


def registers(name):
    return f"\n    def mx_register_operators(registry):\n        registry.add({name})\n"


OPERATORS = {
    "inference_rounds_down": (
        """
    class Wrong(Halves):
        def infer_shape(self, p, s):
            data = s.known("data")
            if data is not None:
                s.assign("output", (data[0], data[1] // 2))
    """,
        r"\[acme\] NoParams\(\) on float64\[4, 7\]: output 0 \(output\) is \(\(4, 4\), 'float64'\), inferred \(\(4, 3\), 'float64'\)",
    ),
    "reference_needs_an_even_axis": (
        """
    class Wrong(Halves):
        def reference(self, p, inputs, ctx):
            return [inputs[0].reshape(len(inputs[0]), -1, 2)[:, :, 0]]
    """,
        r"\[acme\] NoParams\(\) on \(4, 7\): ValueError: cannot reshape array of size 28 into shape \(4,.*, at .*\.py:",
    ),
    "inference_knows_even_axes": (
        """
    class Wrong(Halves):
        def infer_shape(self, p, s):
            data = s.known("data")
            if data is not None and data[-1] % 2 == 0:
                s.assign("output", (data[0], data[1] // 2))
    """,
        "output: its shape stays unknown for inputs of known shapes: data .4, 7.; infer_shape must set it",
    ),
    "inference_raises_for_one_element": (
        """
    class Wrong(Halves):
        def infer_shape(self, p, s):
            super().infer_shape(p, s)
            data = s.known("data")
            if data is not None and data[1] == 1:
                raise KeyError("no rule")
    """,
        r"\[acme\] NoParams\(\) on \(1, 1\): KeyError: 'no rule'",
    ),
    "gradient_ignores_a_parameter": (
        """
    class Wrong(Times):
        def backward(self, p, out_grad):
            return 2 * out_grad
    """,
        r"\[acme\] TimesParam\(times=3\) on float64\[4, 7\]: gradient of data",
    ),
    "reference_ignores_an_option": (
        """
    class SumParam(Params):
        keepdims: bool = opt(False, "whether the axis stays")

    class Wrong(Operator):
        name = "acme"
        Param = SumParam
        differentiable = False
        custom_gradient = True
        def infer_shape(self, p, s):
            data = s.known("data")
            if data is not None:
                s.assign("output", (*data[:-1], 1) if p.keepdims else data[:-1])
        def reference(self, p, inputs, ctx):
            return [inputs[0].sum(axis=-1)]
    """,
        r"\[acme\] SumParam\(keepdims=True\) on float64\[4, 7\]: output 0 \(output\) is",
    ),
    "gradient_of_real_parameters": (
        """
    class LineParam(Params):
        a: float = opt(0.0, "slope", runtime=True)
        b: float = opt(0.0, "offset", runtime=True)

    class Wrong(SimpleOp):
        name = "acme"
        Param = LineParam
        def function(self, p, data):
            return p.a * data + p.b
        def gradient_function(self, p, out_grad):
            return p.b * out_grad
    """,
        r"\[acme\] LineParam\(a=0.75, b=0.875\) on float64\[4, 7\]: gradient of data",
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_that_are_wrong_elsewhere_are_found(name, site):
    body, message = OPERATORS[name]
    found = results(site, "operators", body + registers("Wrong"))
    (error,) = [result.error for result in found if result.error is not None]
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(error)


KERNELS = {
    "thirty_two_columns": (
        "Halves",
        """
    def make(call):
        def run(ctx, inputs):
            out = np.zeros(call.outputs[0].shape, inputs[0].dtype)
            out[:, :16] = inputs[0][:, :32:2]
            return [out]
        return run
    """,
        r"float32\[3, 37\]: wrong, function, result 0",
    ),
    "even_rows": (
        "Halves",
        """
    def make(call):
        rows, columns = call.inputs[0].shape
        size = call.outputs[0].shape
        return lambda ctx, inputs: [np.resize(inputs[0].ravel()[::2], size)]
    """,
        r"float32\[4, 7\]: wrong, function, result 0",
    ),
    "always_two": (
        "Times",
        """
    def make(call):
        return lambda ctx, inputs: [2 * inputs[0]]
    """,
        r"TimesParam\(times=3\) on float32\[4, 7\]: wrong, function, result 0",
    ),
    "always_two_axes": (
        "Times",
        """
    def make(call):
        return lambda ctx, inputs: [call.params.times * inputs[0] + (inputs[0].ndim - 2)]
    """,
        r"TimesParam\(times=2\) on float32\[2, 3, 5\]: wrong, function, result 0",
    ),
}


def registers_kernel(op):
    return (
        registers(op)
        + "\n    def mx_register_kernels(registry):\n        registry.add('acme', 'cpu', 'wrong', make)\n"
    )


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_that_are_wrong_elsewhere_are_found(name, site):
    op, body, message = KERNELS[name]
    found = results(site, "kernels", body + registers_kernel(op))
    (error,) = [result.error for result in found if result.error is not None]
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(error)


def test_kernels_that_decline_the_first_example_are_tried_on_others(site):
    body = """
    def make(call):
        if len(call.inputs[0].shape) != 3:
            return None
        return lambda ctx, inputs: [call.params.times * inputs[0]]
    """
    last = results(site, "kernels", body + registers_kernel("Times"))[-1]
    assert last.error is None and last.unchecked is None


class PlainParam(Params):
    mode: str = opt("plus", "what is done", choices=("plus", "minus", "times"))
    axis: int = opt(-1, "where")
    flag: bool | None = opt(None, "whether")
    window: tuple[int, ...] = required("how far")
    label: str = opt("", "a text")


class Plain(Operator):
    name = "acme"
    Param = PlainParam
    differentiable = False

    def infer_shape(self, p, s):
        if p.axis < -1:
            raise s.error("axis")
        s.unify(["data", "output"])

    def reference(self, p, inputs, ctx):
        return [inputs[0] + 0]


def test_one_thing_at_a_time_is_changed():
    made = [variant.case for variant in variants(Plain())]
    assert [case.inputs[0].shape for case in made] == [
        (4, 7), (3, 37), (1, 1), (0, 6), (2, 3, 5), (2, 3, 5, 5), *[(4, 7)] * 4,
    ]  # fmt: skip
    assert [case.params.attrs() for case in made[6:]] == [
        {"window": "(2,)", "mode": "minus"}, {"window": "(2,)", "axis": "0"}, {"window": "(2,)", "flag": "True"},
        {"window": "(3,)"},
    ]  # fmt: skip


class Largest(Operator):
    name = "acme"
    differentiable = False

    def infer_shape(self, p, s):
        s.assign("output", ())

    def reference(self, p, inputs, ctx):
        return [inputs[0].max()]


def test_arrays_without_elements_may_be_refused_by_numpy():
    made = variants(Largest())
    assert made and all(variant.failure is None and variant.case.inputs[0].size for variant in made)
