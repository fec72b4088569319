# SPDX-License-Identifier: Apache-2.0
import sys

import pytest

from mx_core.errors import PluginError
from mx_core.plugins import specs


def test_a_target_is_imported_at_the_first_call(monkeypatch):
    monkeypatch.delitem(sys.modules, "this", raising=False)
    target = specs.target("colorsys:rgb_to_hsv")
    assert isinstance(target, specs.Target)
    assert target(0, 0, 0) == (0.0, 0.0, 0)
    assert specs.resolve(target) is sys.modules["colorsys"].rgb_to_hsv


def test_a_target_that_ends_the_program_fails(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "leaves_when_imported.py").write_text("raise SystemExit('no licence')")
    with pytest.raises(
        PluginError, match="the import of 'leaves_when_imported' ends the program.*no licence"
    ):
        specs.resolve("leaves_when_imported:make")
    with pytest.raises(PluginError, match=r"'sys:exit' ends the program: SystemExit\(0\)"):
        specs.target("sys:exit")(0)


def test_ctrl_c_during_an_import_stays_what_it_is(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "interrupted.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        specs.resolve("interrupted:make")


def test_nested_attributes():
    assert specs.resolve("json:JSONEncoder.encode") is __import__("json").JSONEncoder.encode


def test_callables_pass_through():
    assert specs.target(dict) is dict is specs.resolve(dict)


@pytest.mark.parametrize("wrong", ["", "module", "module:", ":attribute", 3, None])
def test_what_is_neither_is_refused(wrong):
    with pytest.raises(PluginError, match="module:attribute"):
        specs.target(wrong)
