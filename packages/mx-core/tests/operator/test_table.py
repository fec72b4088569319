# SPDX-License-Identifier: Apache-2.0
"""Operators whose modules are imported when they are asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from mx_core import operators, plugins
from mx_core.errors import PluginError, PluginWarning, UnknownOperatorError
from mx_core.operator import later
from mx_core.plugins.specs import OperatorSpec, operator_specs

FIRST = """\
from mx_core.operator import Operator

class Doubled(Operator):
    name, aliases = "late_doubled", ("late_twice",)

    def backward(self, p, out_grad):
        return 2 * out_grad

class Unchanged(Operator):
    name = "late_unchanged"
    differentiable = False
"""
SECOND = """\
from mx_core.operator import Operator

def made(name):
    return type(name, (Operator,), {"name": name, "differentiable": False})

FUNCTIONS = tuple(made(f"late_{i}") for i in range(2))
"""
PLUGIN = """\
import mx_core

@mx_core.hookimpl
def mx_register_operators(registry):
    registry.add_later('''TABLE''')
"""


@pytest.fixture
def package(site):
    """A package of two modules, with a plug-in that registers them later."""
    home = site.path / "late_ops"
    home.mkdir()
    (home / "__init__.py").write_text("")
    for name, source in (("first", FIRST), ("second", SECOND)):
        (home / f"{name}.py").write_text(source)
    importlib.invalidate_caches()
    site.modules += ["late_ops", "late_ops.first", "late_ops.second"]
    table = later.table("late_ops")
    for name in site.modules:
        sys.modules.pop(name, None)
    site.add("late", PLUGIN.replace("TABLE", table))
    return home


def imported() -> set[str]:
    return {name for name in sys.modules if name.startswith("late_ops.")}


def test_the_table_has_names_aliases_and_backward_operators(package: Path) -> None:
    assert later.declared("late_ops") == [
        OperatorSpec("late_ops.first", "late_doubled", ("late_twice",), ("_backward_late_doubled",)),
        OperatorSpec("late_ops.first", "late_unchanged"),
        OperatorSpec("late_ops.second", "late_0"),
        OperatorSpec("late_ops.second", "late_1"),
    ]
    assert list(operator_specs(later.table("late_ops"))) == later.declared("late_ops")


@pytest.mark.parametrize("line", ["late_ops.first late_0", "    late_0"])
def test_a_line_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(PluginError, match="expected a module, or an indented line"):
        list(operator_specs(line))


def test_a_module_is_imported_when_one_of_its_operators_is_asked_for(package: Path) -> None:
    names = {"late_doubled", "late_twice", "_backward_late_doubled", "late_unchanged", "late_0", "late_1"}
    assert names <= set(operators.names()) and imported() == set()
    assert operators.find("late_none") is None and imported() == set()
    with pytest.raises(UnknownOperatorError, match="Did you mean 'late_unchanged'"):
        operators.get("late_unchangd")
    assert imported() == set()
    backward = operators.get("_backward_late_doubled")
    assert imported() == {"late_ops.first"}
    assert backward.backward_of is operators.get("late_twice") is operators.get("late_doubled")
    assert operators.get("late_1").name == "late_1" and imported() == {"late_ops.first", "late_ops.second"}
    assert names <= set(operators.names())


def test_what_cannot_be_imported_is_set_aside_and_the_error_of_its_name_says_so(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "first.py").write_text("raise ValueError('on purpose')\n")
    importlib.invalidate_caches()
    operators.names()
    with pytest.warns(PluginWarning, match="late_.*is set aside: ValueError: on purpose") as warned:
        assert operators.find("late_twice") is None
    assert len(warned) == 2, "one of each operator"
    with pytest.raises(UnknownOperatorError, match="ValueError: on purpose"):
        operators.get("late_doubled")
    assert operators.get("late_0").name == "late_0"


def test_an_operator_that_the_module_has_not_is_set_aside(package: Path) -> None:
    (package / "second.py").write_text("")
    importlib.invalidate_caches()
    with pytest.warns(PluginWarning, match="'late_ops.second' declares no operator 'late_[01]'"):
        assert operators.find("late_0") is None


def test_a_module_may_ask_for_operators_while_it_is_imported(package: Path) -> None:
    early = "EARLY = operators.find('late_doubled')\n\nclass Unchanged"
    source = "from mx_core import operators\n" + FIRST.replace("class Unchanged", early)
    source += "\nLATE = operators.get('late_unchanged')\n"
    (package / "first.py").write_text(source)
    importlib.invalidate_caches()
    assert operators.get("_backward_late_doubled").backward_of is operators.get("late_twice")
    module = sys.modules["late_ops.first"]
    assert operators.get("late_doubled") is module.EARLY  # type: ignore[attr-defined]
    assert operators.get("late_unchanged") is module.LATE  # type: ignore[attr-defined]
    assert plugins.faults() == ()


def test_a_module_that_does_not_declare_the_operator_yet_may_ask_for_it(package: Path) -> None:
    source = "from mx_core import operators\nNONE = operators.find('late_doubled')\n" + FIRST
    (package / "first.py").write_text(source)
    importlib.invalidate_caches()
    found = importlib.import_module("late_ops.first")
    assert found.NONE is None and operators.get("late_doubled").name == "late_doubled"
    assert plugins.faults() == ()


def test_a_thread_that_imports_the_module_may_ask_while_another_one_waits_for_it(package: Path) -> None:
    import threading

    source = (
        "import time\nfrom mx_core import operators\ntime.sleep(0.3)\nZERO = operators.get('late_0')\n"
        + FIRST
    )
    (package / "first.py").write_text(source)
    importlib.invalidate_caches()
    operators.names()
    importing = threading.Thread(target=importlib.import_module, args=("late_ops.first",))
    importing.start()
    while "late_ops.first" not in sys.modules:
        pass
    found = operators.get("late_twice")
    importing.join(20)
    assert not importing.is_alive() and found.name == "late_doubled" and plugins.faults() == ()


def test_what_the_machine_refuses_is_tried_again(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operators.names()
    calls: list[str] = []

    def refuse(name: str) -> None:
        calls.append(name)
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("mx_core.operator.table.import_by_name", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            operators.find("late_twice")
    assert calls == ["late_ops.first"] and operators.get("late_twice").name == "late_doubled"
    assert plugins.faults() == ()


def test_ctrl_c_in_an_import_leaves_the_operator_for_the_next_time(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operators.names()

    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("mx_core.operator.table.import_by_name", interrupt)
        with pytest.raises(KeyboardInterrupt):
            operators.get("late_0")
    assert operators.get("late_0").name == "late_0"


def test_a_strangers_backward_operator_of_a_name_that_is_brought_later_is_refused(
    site, package: Path
) -> None:
    site.add(
        "rival",
        """
        import mx_core
        from mx_core.operator import Operator

        class Rival(Operator):
            name, differentiable = "_backward_late_doubled", False

        @mx_core.hookimpl
        def mx_register_operators(registry):
            registry.add(Rival)
        """,
    )
    with pytest.warns(PluginWarning, match="'_backward_late_doubled' is declared by .* and by .*Rival"):
        backward = operators.get("_backward_late_doubled")
    assert backward.backward_of is operators.get("late_doubled")


def test_operators_of_a_test_come_to_those_that_were_not_made(package: Path) -> None:
    from mx_core.operator import Operator

    class Passing(Operator):
        name, differentiable = "test_late_passing", False

    with operators.temporary(Passing):
        inside = operators.get("late_1")
    assert operators.get("late_1") is inside


def test_threads_that_ask_for_one_operator_get_the_same(package: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    (package / "first.py").write_text("import time\ntime.sleep(0.3)\n" + (package / "first.py").read_text())
    importlib.invalidate_caches()
    operators.names()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(operators.find, ["late_twice", "late_doubled", "_backward_late_doubled"] * 8))
    assert None not in found and len(set(map(id, found))) == 2


def test_the_command_writes_the_table(package: Path, tmp_path: Path) -> None:
    target = tmp_path / "operator_table.py"
    command = [sys.executable, "-m", "mx_core.operator.later", "late_ops", str(target)]
    subprocess.run(command, check=True, cwd=package.parent)
    found: dict[str, str] = {}
    exec(target.read_text(), found)
    assert found["OPERATORS"] == later.table("late_ops")
