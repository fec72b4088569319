# SPDX-License-Identifier: Apache-2.0
"""What a stranger's plug-in does wrong hurts that contribution or that plug-in alone, and is said."""

import sys
import warnings

import pytest

from mx_core import context, kernels, operators, plugins
from mx_core.errors import NoKernelError, PluginError, PluginWarning, UnknownOperatorError
from mx_core.plugins import aside, loaded
from mx_core.plugins.examine import examine

OPERATOR = """
    from mx_core.operator import SimpleOp

    class {kind}(SimpleOp):
        name = "{name}"
        aliases = {aliases}
        def function(self, p, data):
            return data + data

    def mx_register_operators(registry):
        registry.add({kind})
"""


def operator(name, aliases=()):
    return OPERATOR.format(kind="Op", name=name, aliases=aliases)


def said(action):
    """Messages of the warnings during an action, and its result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = action()
    return [str(w.message) for w in caught if w.category is PluginWarning], result


@pytest.mark.parametrize("wrong", [("twice",), ("other", ("twice",))])
def test_a_duplicate_hurts_the_newcomer_though_it_sorts_first(site, wrong):
    site.add("zoo", operator("twice"), distribution="mx-operators")
    site.add("acme", operator(*wrong), distribution="acme-ops")
    messages, op = said(lambda: operators.get("twice"))
    assert type(op).__module__.startswith("fake_mx_operators")
    (message,) = messages
    assert "plug-in 'acme' (acme-ops 0.1.0) is broken" in message and "'zoo' (mx-operators 0.1.0)" in message
    assert {r.name: r.state for r in plugins.plugins()} == {"acme": "broken", "zoo": "loaded"}


def test_a_plugin_named_like_one_of_ours_hurts_itself(site):
    site.add("operators", operator("twice"), distribution="mx-operators")
    site.add("operators", operator("thrice"), distribution="acme-ops")
    messages, op = said(lambda: operators.get("twice"))
    assert op.name == "twice" and "distribution 'mx-operators' brings a plug-in of this name" in messages[0]


TAKEN = """
    from mx_core.operator import Operator, SimpleOp

    class Clash(Operator):
        name = "_backward_twice"
        differentiable = False

    class Own(SimpleOp):
        name = "aaa"
        def function(self, p, data):
            return data + 1
        def backward_operator(self):
            return Clash()

    class Good(SimpleOp):
        name = "good"
        def function(self, p, data):
            return data + 2

    def mx_register_operators(registry):
        registry.add(Own)
        registry.add(Good)
"""


def test_an_operator_whose_backward_operator_is_taken_is_set_aside_alone(site):
    site.add("zoo", operator("twice"), distribution="mx-operators")
    site.add("acme", TAKEN, distribution="acme-ops")
    messages, op = said(lambda: operators.get("twice"))
    assert operators.get("good") and operators.get("_backward_twice").backward_of is op
    (message,) = messages
    for part in ("operators: 'aaa'", "plug-in 'acme' (acme-ops 0.1.0)", ".py:", "'_backward_twice'"):
        assert part in message
    with pytest.raises(UnknownOperatorError, match=r"'aaa' of plug-in 'acme'.*is set aside"):
        operators.get("aaa")


def test_an_operator_that_cannot_be_made_is_set_aside_alone(site):
    source = operator("wrong").replace('name = "wrong"', 'name = "wrong"; arguments = ("lhs", "rhs")')
    site.add("acme", source, distribution="acme-ops")
    site.add("good", operator("good"), distribution="good-ops")
    messages, op = said(lambda: operators.get("good"))
    assert op.name == "good" and len(messages) == 1 and "function takes ['data']" in messages[0]
    assert said(lambda: operators.get("good"))[0] == []  # once


KERNELS = """
    from mx_core.operator import SimpleOp

    class Op(SimpleOp):
        name = "twice"
        def function(self, p, data):
            return data + data

    def good(call):
        return lambda ctx, inputs: [inputs[0] * 2]

    def bad(*arguments):
        raise RuntimeError("no licence")

    def leave(*arguments):
        raise SystemExit(0)

    def mx_register_operators(registry):
        registry.add(Op)

    def mx_register_kernels(registry):
        {kernels}
        registry.add("twice", "cpu", "good", good, 10)
"""


def prepared():
    op = operators.get("twice")
    spec = kernels.TensorSpec((3,), 0)
    return kernels.prepare(op, op.Param(), [spec], [spec], context.cpu())


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            'registry.add("twice", "cpu", "bad", "no_such_module:make", 100)',
            "No module named 'no_such_module'",
        ),
        ('registry.add("twice", "cpu", "bad", "json:no_such_function", 100)', "no_such_function"),
        ('registry.add("twice", "cpu", "bad", bad, 100)', "RuntimeError: no licence"),
        ('registry.add("twice", "cpu", "bad", good, 100, supports=bad)', "RuntimeError: no licence"),
        ('registry.add("twice", "cpu", "bad", lambda call: 3, 100)', "made a int; expected a plan"),
        ('registry.add("twice", "cpu", "bad", leave, 100)', "kernel 'bad' ends the program: SystemExit(0)"),
        ('registry.add("twice", "cpu", "bad", good, 100, supports=leave)', "ends the program: SystemExit(0)"),
        ('registry.add("twice", "cpu", "bad", "sys:exit", 100)', "'sys:exit' ends the program: SystemExit("),
    ],
)
def test_a_kernel_that_does_not_work_is_passed_over(site, line, cause):
    site.add("acme", KERNELS.format(kernels=line), distribution="acme-ops")
    messages, chosen = said(prepared)
    assert chosen.variant == "good"
    (message,) = messages
    for part in (
        "kernels: 'twice/cpu/bad'",
        "plug-in 'acme' (acme-ops 0.1.0)",
        ".py:",
        cause,
        "mx plugins check acme",
    ):
        assert part in message
    assert said(prepared)[0] == []
    (fault,) = plugins.faults("acme")
    assert fault.entry.name == "twice/cpu/bad" and plugins.is_aside(fault.entry)


def test_the_warning_is_at_the_line_that_registered(site):
    site.add(
        "acme", KERNELS.format(kernels='registry.add("twice", "cpu", "bad", bad, 100)'), distribution="acme"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prepared()
    assert caught[0].filename.endswith("fake_acme_acme.py") and caught[0].lineno > 10


def test_strict_mode_raises_what_is_set_aside(site, monkeypatch):
    monkeypatch.setenv("MX_STRICT_PLUGINS", "1")
    site.add(
        "acme", KERNELS.format(kernels='registry.add("twice", "cpu", "bad", bad, 100)'), distribution="acme"
    )
    with pytest.raises(PluginError, match="no licence"):
        prepared()


def test_without_another_candidate_the_error_has_the_cause(site, quiet, monkeypatch):
    monkeypatch.setattr(kernels, "reference_kernel", None)
    source = KERNELS.replace('registry.add("twice", "cpu", "good", good, 10)', "")
    site.add(
        "acme", source.format(kernels='registry.add("twice", "gpu", "bad", bad, 100)'), distribution="acme"
    )
    op = operators.get("twice")
    spec = kernels.TensorSpec((3,), 0)
    with pytest.raises(NoKernelError, match=r"'bad' of plug-in 'acme' failed: RuntimeError\('no licence'\)"):
        kernels.prepare(op, op.Param(), [spec], [spec], context.Context("gpu"))


def test_a_selection_hook_that_raises_is_not_asked(site):
    source = (
        KERNELS.format(kernels="pass")
        + "\n    def mx_select_kernel(op, call):\n        raise RuntimeError('no mood')"
    )
    site.add("acme", source, distribution="acme-ops")
    messages, chosen = said(prepared)
    assert chosen.variant == "good" and "hooks: 'mx_select_kernel' of plug-in 'acme'" in messages[0]


def test_kernels_for_what_is_not_there_are_said(site):
    lines = 'registry.add("twicee", "cpu", "k", good); registry.add("twice", "tpu", "k", good)'
    site.add("acme", KERNELS.format(kernels=lines), distribution="acme-ops")
    examine()
    errors = [fault.error for fault in plugins.faults()]
    assert errors == [
        "there is no operator 'twicee'; did you mean 'twice'?", "there is no device 'tpu'; there are cpu, gpu",
    ]  # fmt: skip


def test_a_name_to_disable_that_nothing_has_is_said(site, monkeypatch):
    monkeypatch.setenv("MX_DISABLE_PLUGINS", "acmee, good")
    site.add("acme", operator("one"), distribution="acme-ops")
    site.add("good", operator("two"), distribution="good-ops")
    messages, _ = said(plugins.plugins)
    assert messages == [
        "MX_DISABLE_PLUGINS: no plug-in or distribution 'acmee' is installed; did you mean acme?"
    ]


def test_a_slow_plugin_is_said_and_its_time_is_kept(site, monkeypatch):
    monkeypatch.setattr(loaded, "_SLOW", 0.05)
    site.add("acme", "import time\ntime.sleep(0.1)", distribution="acme-ops")
    messages, records = said(plugins.plugins)
    assert records[0].seconds >= 0.1 and "'acme' (acme-ops 0.1.0) took 0." in messages[0]


def test_what_was_set_aside_is_forgotten_with_the_plugins(site, quiet):
    site.add(
        "acme", KERNELS.format(kernels='registry.add("twice", "cpu", "bad", bad, 100)'), distribution="acme"
    )
    prepared()
    assert aside.faults()
    plugins.reset()
    assert not aside.faults()


def selecting(site, body):
    source = (
        KERNELS.format(kernels="pass") + f"\n    def mx_select_kernel(op, call, candidates):\n        {body}"
    )
    site.add("acme", source, distribution="acme-ops")
    messages, chosen = said(prepared)
    assert chosen.variant == "good"
    return messages


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("raise SystemExit(3)", "it ends the program: SystemExit(3)"),
        ("exit()", "it ends the program: SystemExit("),
        ("return list(candidates)", "expected one of the candidates or None, got [KernelSpec("),
        ("return 'good'", "expected one of the candidates or None, got 'good'"),
    ],
)
def test_a_selection_hook_that_ends_the_process_or_answers_nonsense_is_not_asked(site, body, cause):
    (message,) = selecting(site, body)
    assert "hooks: 'mx_select_kernel' of plug-in 'acme' (acme-ops 0.1.0)" in message and cause in message
    assert said(prepared)[0] == [] and [fault.error for fault in plugins.faults("acme")] != []


def test_a_selection_hook_that_was_set_aside_is_not_called_again(site):
    messages = selecting(
        site, "import sys; sys.asked = getattr(sys, 'asked', 0) + 1; raise RuntimeError('no mood')"
    )
    assert "no mood" in messages[0]
    prepared()
    assert sys.asked == 1
    del sys.asked


@pytest.mark.parametrize(
    ("hook", "body"),
    [
        ("mx_register_operators", "return [Op]"),
        ("mx_register_operators", "yield registry.add(Op)"),
        ("mx_register_kvstores", "return dict"),
    ],
)
def test_a_registering_hook_returns_nothing(site, hook, body):
    source = operator("twice").partition("def mx_register")[0] + f"def {hook}(registry):\n        {body}\n"
    site.add("acme", source, distribution="acme-ops")
    messages, records = said(plugins.plugins)
    assert records[0].state == "broken"
    assert f"{hook} returned " in messages[0] and "expected None; registry.add(...) registers" in messages[0]


ANSWERS = """
    def mx_diagnostics():
        {diagnostics}

    def mx_stub_modules():
        {stubs}
"""


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("return ['a line']", ": expected a mapping of texts, got ['a line']"),
        ("raise SystemExit(0)", " ends the program: SystemExit(0)"),
        ("raise RuntimeError('no licence')", "no licence"),
    ],
)
def test_hooks_that_answer_with_a_list_or_leave_hurt_themselves(site, quiet, body, cause):
    site.add("acme", ANSWERS.format(diagnostics=body, stubs=body), distribution="acme-ops")
    good = ANSWERS.format(diagnostics="return {'port': 1}", stubs="return {'acme.nd': 'acme.array:Array'}")
    site.add("good", good, distribution="good-ops")
    lines = plugins.diagnostics()
    assert lines["good"] == {"port": "1"} and cause in lines["acme"]["error"]
    assert plugins.stub_modules() == {"acme.nd": "acme.array:Array"}
    assert cause in plugins.faults("acme")[0].error


def test_two_plugins_of_one_module_are_told_apart(site):
    site.add("acme", operator("twice"), distribution="acme-ops")
    info = site.path / "other_ops-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-ops\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mx.plugins.v1]\nother = fake_acme_ops_acme\n")
    messages, op = said(lambda: operators.get("twice"))
    assert op.name == "twice"
    (message,) = messages
    assert (
        "plug-in 'other' (other-ops 1.0) is broken: its module 'fake_acme_ops_acme' is that of plug-in 'acme'"
        in message
    )
    assert len(message) < 200


def test_a_hook_of_one_of_two_plugins_of_one_name_is_its_own(site, quiet):
    source = "def mx_select_kernel(op, call, candidates):\n    raise RuntimeError('no mood')\n"
    site.add("one", source, distribution="mx-operators")
    site.add("one", "", distribution="acme-ops")
    plugins.select_kernel(None, None, [])
    (fault,) = plugins.faults()
    assert fault.entry.distribution == "mx-operators"
