# SPDX-License-Identifier: Apache-2.0
import inspect
import re

import click
import pytest

from mx_core.errors import PluginError
from mx_core.operator import Operator
from mx_core.plugins import hookspecs, registrars
from mx_core.plugins.registrars import REGISTRARS
from mx_core.plugins.registries import Provenance, Transaction


@pytest.fixture
def add():
    """Registers one contribution and returns its entry."""

    def call(kind, *args, **kwargs):
        transaction = Transaction(Provenance("acme", "acme-mx", "1"))
        REGISTRARS[kind](transaction).add(*args, **kwargs)
        (entry,) = transaction.staged
        return entry

    return call


def test_there_is_a_registrar_for_every_registration_hook():
    hooks = [name for name in vars(hookspecs) if name.startswith("mx_register_")]
    assert [f"mx_register_{kind}" for kind in REGISTRARS] == hooks


@pytest.mark.parametrize("kind", REGISTRARS)
def test_the_hook_states_the_arguments_of_add(kind):
    parameters = list(inspect.signature(REGISTRARS[kind].add).parameters.values())[1:]
    shown = ", ".join(
        re.sub(r": [^=]+ = |: .+", "=" if p.default is not p.empty else "", str(p)) for p in parameters
    )
    shown = shown.replace("'", '"')
    assert f"`add({shown})`" in inspect.getdoc(getattr(hookspecs, f"mx_register_{kind}"))


CONTRIBUTIONS = [
    ("devices", ("npu", 64, "a:probe", "a:make"), "npu"),
    ("engines", ("Fast", dict, 5, ("fast",)), "Fast"),
    ("storage_managers", ("cpu", "pooled", dict), "cpu/pooled"),
    ("resources", ("random", "cpu", dict), "random/cpu/acme"),
    ("kernels", ("dot", "cpu", "blas", "a:make", 20), "dot/cpu/blas"),
    ("kernel_generators", ("cpu", "loops", dict), "cpu/loops"),
    ("graph_passes", ("fuse", "program", dict, ("a",), ("b",)), "fuse"),
    ("kvstores", ("local", dict, ("device",)), "local"),
    ("data_iters", ("CSVIter", dict), "CSVIter"),
    ("image_codecs", ("png", (".png",), "a:sniff", "a:decode"), "png"),
    ("augmenters", ("crop", dict), "crop"),
    ("optimizers", ("sgd", dict, ("SGD2",)), "sgd"),
    ("metrics", ("acc", dict), "acc"),
    ("initializers", ("uniform", dict), "uniform"),
    ("profiler_sinks", ("chrome", dict), "chrome"),
    ("commands", ("serve", click.Command("serve")), "serve"),
]


@pytest.mark.parametrize(("kind", "arguments", "name"), CONTRIBUTIONS)
def test_add_stages_a_record_with_the_arguments_as_fields(add, kind, arguments, name):
    entry = add(kind, *arguments)
    assert (entry.kind, entry.name) == (kind, name)
    assert entry.origin.startswith(__file__)
    fields = list(vars(entry.value).values())
    for argument, field in zip(arguments, fields, strict=False):
        assert field == argument or repr(field) == f"Target({argument!r})"


def test_operators_are_classes_with_a_name(add):
    class Op(Operator):
        name, aliases = "op", ("op2",)
        differentiable = False

    class Nameless(Operator):
        pass

    class Foreign:
        name, aliases = "op", ("op2",)

    entry = add("operators", Op)
    assert entry.value is Op and entry.aliases == ("op2",)
    for wrong in (Op(), "op", int, Foreign):
        with pytest.raises(PluginError, match="Operator class"):
            add("operators", wrong)
    with pytest.raises(PluginError, match="Nameless.*has no name"):
        add("operators", Nameless)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("devices", ("npu", 7, dict, dict), "at least 64"),
        ("devices", ("gpu", 64, dict, dict), "expected type_id 2"),
        ("devices", ("cpu", 64, dict, dict), "main memory"),
        ("resources", ("luck", "cpu", dict), "'luck'"),
        (
            "graph_passes",
            ("late", "layout", dict),
            "expected a stage of graph, inference, program, got 'layout'",
        ),
        ("engines", ("Fast", "no colon"), "module:attribute"),
        ("engines", ("Fast", dict, 0, "alias"), "aliases"),
        ("kernels", ("dot", "cpu", "blas", "no colon"), "module:attribute"),
        ("kvstores", ("", dict), "non-empty name"),
        ("kernels", ("dot", "cpu", "blas", dict, "high"), "priority must be a whole number, got 'high'"),
        ("engines", ("Fast", dict, 1.5), "priority must be a whole number, got 1.5"),
        ("kernels", ("dot", "cpu", "blas", dict, 10, 3), "expected a callable or 'module:attribute', got 3"),
        ("graph_passes", ("acme", "grph", dict), "expected a stage of graph, inference, program, got 'grph'"),
        ("graph_passes", ("acme", "graph", dict, "fuse"), "after must be a sequence of names, got 'fuse'"),
        (
            "image_codecs",
            ("acme", ".acme", dict, dict),
            "extensions must be a sequence of names, got '.acme'",
        ),
    ],
)
def test_wrong_contributions_are_refused(add, kind, arguments, message):
    with pytest.raises(PluginError, match=message):
        add(kind, *arguments)


def test_registrars_are_exported_for_annotations():
    assert registrars.KernelRegistrar.kind == "kernels"
