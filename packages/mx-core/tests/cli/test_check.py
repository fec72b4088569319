# SPDX-License-Identifier: Apache-2.0
"""`mx plugins check` of parts that are wrong in one way each."""

from time import monotonic

import pytest

from mx_core.testing import guard

TRAINED = """
    import numpy as np

    class Raising:
        def __init__(self):
            raise RuntimeError("no licence")

    class Sized:
        def __init__(self, size):
            self.size = size

    class Files:
        def __init__(self, path="no_such_file"):
            open(path)

    def mx_register_data_iters(registry):
        registry.add("Raising", Raising)
        registry.add("Sized", Sized)
        registry.add("Files", Files)
"""


def test_check_fails_an_iterator_whose_constructor_raises(mx, site):
    site.add("acme", TRAINED)
    status, output = mx("plugins", "check", "acme")
    assert status == 1
    assert "FAILED  data iters 'Raising': can be made\n        RuntimeError: no licence" in output
    assert "not checked  data iters 'Sized'" in output and "missing a required argument: 'size'" in output
    assert "not checked  data iters 'Files'" in output


NEVER = """
    from mx_core.operator import Operator

    class RowScale(Operator):
        name = "row_scale"
        arguments = ("data", "scale")
        differentiable = False

        def infer_shape(self, p, s):
            data = s.get("data")
            if data is not None:
                s.assign("scale", data[:1])
            s.assign("output", data)

        def reference(self, p, inputs, ctx):
            {body}

    def mx_register_operators(registry):
        registry.add(RowScale)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "last"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("return [inputs[0] * inputs[1].reshape(3, 5)]", "ValueError: cannot reshape"),
    ],
)
def test_check_fails_an_operator_that_can_never_run(mx, site, body, last):
    site.add("acme", NEVER.format(body=body))
    status, output = mx("plugins", "check", "acme")
    assert status == 1
    assert "FAILED  operators 'row_scale': the reference runs" in output
    assert f"it raises for every input that inference accepts; last: {last}" in output


DECLARED = """
    import numpy as np
    from mx_core import expression as X
    from mx_core.operator import Operator, SimpleOp

    class Declared({base}):
        name = "acme_declared"
        {body}

    def mx_register_operators(registry):
        registry.add(Declared)
"""


def check_declared(mx, site, base, body):
    """Exit status and output of the check of an operator."""
    indented = body.strip().replace("\n", "\n        ")
    site.add("acme", DECLARED.format(base=base, body=indented))
    return mx("plugins", "check", "acme")


BRANCHING = """
def function(self, p, data):
    if data > 0:
        return data
    return -data
"""
BRANCHING_GRADIENT = """
def function(self, p, data):
    return data * data
def gradient_function(self, p, out_grad, data):
    return out_grad if data > 0 else -out_grad
"""
TYPING = """
differentiable = False
def infer_shape(self, p, s):
    s.assign("outptu", s.get("data"))
def reference(self, p, inputs, ctx):
    return [inputs[0]]
"""
LEFT_OUT = """
arguments = ("lhs", "rhs")
def gradient(self, p, g):
    return {"lhs": g.out_grad()}
def reference(self, p, inputs, ctx):
    return [inputs[0] + 3 * inputs[1]]
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("base", "body", "said"),
    [
        ("SimpleOp", BRANCHING, ["Declared.function cannot be traced", "(if data > 0:)", "write where(condition"]),
        ("SimpleOp", BRANCHING_GRADIENT, ["Declared.gradient_function cannot be traced", "if data > 0", "write where"]),
        (
            "SimpleOp",
            "differentiable = False\ndef function(self, p, data):\n    return 2 * data",
            ["differentiable = False says that the gradient of data is zero, but numerically it is ", "custom_gradient"],
        ),
        (
            "Operator",
            "differentiable = False\ndef reference(self, p, inputs, ctx):\n    return [np.exp(inputs[0])]",
            ["differentiable = False says that the gradient of data is zero"],
        ),
        ("Operator", LEFT_OUT, ["the declaration says that the gradient of rhs is zero, but numerically it is "]),
        (
            "Operator",
            TYPING,
            ["infer_shape asks for 'outptu', the tensors are data, output; did you mean 'output'?"],
        ),
        (
            "Operator",
            "differentiable = False\ndef reference(self, p, inputs, ctx):\n    assert inputs[0].ndim == 9\n    return inputs",
            ["AssertionError, at ", "(assert inputs[0].ndim == 9)"],
        ),
    ],
)  # fmt: skip
def test_check_finds_what_is_wrong_with_a_declaration(mx, site, base, body, said):
    status, output = check_declared(mx, site, base, body)
    assert status == 1, output
    failed = output[output.index("FAILED  operators 'acme_declared'") :]
    for part in said:
        assert part in failed, output
    assert "fake_mx_acme_acme.py:" in failed or "gradient of" in failed or "outptu" in failed


@pytest.mark.long
@pytest.mark.parametrize(
    "body",
    [
        "function = staticmethod(lambda p, data: X.round(data))",
        "function = staticmethod(lambda p, data: X.sign(data))",
        "function = staticmethod(lambda p, data: data > 0)",
        "custom_gradient = True\nfunction = staticmethod(lambda p, data: 2 * data)",
        "without_gradient = ('data',)\nfunction = staticmethod(lambda p, data: 2 * data)",
    ],
)
def test_check_accepts_a_gradient_that_is_zero_or_meant_to_be(mx, site, body):
    status, output = check_declared(mx, site, "SimpleOp", f"differentiable = False\n{body}")
    assert status == 0, output
    assert "operators 'acme_declared': the gradient is that of the reference" in output


EVENTS = """
    def mx_diagnostics():
        return {diagnostics}

    def mx_select_kernel(op, call, candidates):
        {selection}

    def mx_shutdown():
        pass
"""
ELEMENTWISE = """
    from mx_core.operator import SimpleOp

    class Twice(SimpleOp):
        name = "acme_twice"
        def function(self, p, data):
            return 2 * data

    def mx_register_operators(registry):
        registry.add(Twice)
"""


@pytest.mark.long
def test_check_calls_hooks_that_answer(mx, site):
    site.add("acme", ELEMENTWISE)
    site.add("good", EVENTS.format(diagnostics="{'port': '1'}", selection="return candidates[-1]"))
    status, output = mx("plugins", "check", "good")
    assert status == 0, output
    assert "ok      hook 'mx_diagnostics': it gives a mapping of texts" in output
    assert "ok      hook 'mx_select_kernel': it answers with a candidate or None" in output
    assert "not checked  hook 'mx_shutdown': answer" in output
    site.add("bad", EVENTS.format(diagnostics="['a line']", selection="return candidates"))
    status, output = mx("plugins", "check", "bad")
    assert status == 1
    assert "FAILED  hook 'mx_diagnostics'" in output and "got ['a line']" in output
    assert "FAILED  hook 'mx_select_kernel': it answers with a candidate or None" in output
    assert "expected one of the candidates or None, got [KernelSpec(" in output


def test_check_of_a_plugin_that_brings_nothing(mx, site):
    site.add("empty", "MX_HOOK_API = (1, 0)")
    assert mx("plugins", "check", "empty") == (0, "not checked: it registers nothing\n")


ENDLESS = """
    import time
    from mx_core.operator import Operator

    class Endless(Operator):
        name = "acme_endless"
        differentiable = False
        def reference(self, p, inputs, ctx):
            while True:
                time.sleep(0.01)

    def mx_register_operators(registry):
        registry.add(Endless)

    def mx_diagnostics():
        return {}
"""


@pytest.mark.long
def test_a_check_that_does_not_end_is_told_while_it_runs_and_ends_at_the_limit(mx, site, monkeypatch):
    monkeypatch.setattr(guard, "_SILENCE", 0.5)
    site.add("acme", ENDLESS)
    begun = monotonic()
    status, output = mx("plugins", "check", "acme", "--limit", "2.5")
    assert status == 1 and monotonic() - begun < 20
    where = "after 'has a signature', in [acme_endless] NoParams() on float64[4, 6], the reference"
    assert f" s: operators 'acme_endless', {where}" in output
    assert f"no end within 2 s, which --limit sets, {where}" in output
    assert "ok      hook 'mx_diagnostics'" in output  # the checks after it go on


TYPES = """
    import numpy as np
    from mx_core.operator import Operator

    class Sign(Operator):
        name = "acme_sign"
        differentiable = False
        def reference(self, p, inputs, ctx):
            return [np.sign(inputs[0]){of_reference}]

    def mx_register_operators(registry):
        registry.add(Sign)

    def mx_register_kernels(registry):
        registry.add("acme_sign", "cpu", "acme", lambda call: (lambda ctx, inputs: {of_kernel}))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("of_reference", "of_kernel", "said"),
    [
        (".astype(np.float64)", "[np.sign(inputs[0])]", "is ((4, 6), 'float64'), inferred ((4, 6), 'float32')"),
        ("", "[np.sign(inputs[0]).astype(np.float64)]", "output 0 (output) has type float64, declared float32"),
        ("", "[np.sign(inputs[0]).astype(np.int32)]", "output 0 (output) has type int32, declared float64"),
        ("", "[np.sign(inputs[0]).tolist()]", "output 0 (output) has type float64, declared float32"),
        ("", "[np.sign(inputs[0])] * 2", "it returned 2 results, expected 1"),
        ("", "np.sign(inputs[0])", "it returned a ndarray, expected a list of 1 arrays"),
    ],
)  # fmt: skip
def test_check_fails_results_of_another_type_than_is_declared(mx, site, of_reference, of_kernel, said):
    site.add("acme", TYPES.format(of_reference=of_reference, of_kernel=of_kernel))
    status, output = mx("plugins", "check", "acme")
    assert status == 1 and said in output, output
    (failed,) = {line.split("'")[0] for line in output.splitlines() if line.startswith("FAILED")}
    assert failed == ("FAILED  operators " if of_reference else "FAILED  kernels ")


@pytest.mark.parametrize(
    "body",
    ["[np.random.rand(*inputs[0].shape).astype(inputs[0].dtype)]", "[inputs[0] * 0 + counter.pop()]"],
)
def test_check_fails_a_reference_that_gives_something_else_each_time(mx, site, body):
    source = f"counter = list(range(1000))\ndifferentiable = False\ndef reference(self, p, inputs, ctx):\n    return {body}"
    status, output = check_declared(
        mx, site, "Operator", source.replace("counter.pop()", "self.counter.pop()")
    )
    assert status == 1
    assert "FAILED  operators 'acme_declared': the reference gives the same when it is called again" in output
    assert "output 0 (output) has other values when the reference is called again" in output
