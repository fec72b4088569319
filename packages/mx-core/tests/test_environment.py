# SPDX-License-Identifier: Apache-2.0
import pytest

from mx_core import environment, plugins
from mx_core.errors import SettingError


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in environment.settings():
        monkeypatch.delenv(name)


def test_settings_are_the_variables_of_mx(monkeypatch):
    monkeypatch.setenv("MX_ERRORS", "sticky")
    monkeypatch.setenv("MXNET_ENGINE_TYPE", "NaiveEngine")
    monkeypatch.setenv("MXSOMETHING", "else")
    assert environment.settings() == {"MXNET_ENGINE_TYPE": "NaiveEngine", "MX_ERRORS": "sticky"}


def test_a_misspelt_variable_gets_the_closest_name(monkeypatch):
    monkeypatch.setenv("MX_ENGIN_TYPE", "NaiveEngine")
    monkeypatch.setenv("MX_ERRORS", "sticky")
    monkeypatch.setenv("MXNET_ZZZZZZZZZZ", "1")
    assert environment.unknown(environment.VARIABLES) == {
        "MX_ENGIN_TYPE": "MX_ENGINE_TYPE",
        "MXNET_ZZZZZZZZZZ": "",
    }


def test_variables_of_benchmarks_are_none_of_the_unread(monkeypatch):
    monkeypatch.setenv("MX_BENCH_MXNET_PYTHON", "/usr/bin/python3.8")
    assert "MX_BENCH_MXNET_PYTHON" not in environment.unknown(environment.VARIABLES)


def test_every_variable_has_a_sentence():
    assert all(name.startswith("MX") and text for name, text in environment.VARIABLES.items())


@pytest.mark.parametrize(
    ("text", "strict"),
    [("", False), ("0", False), ("1", True), (" 1 ", True), ("On", True), ("off", False)],
)
def test_strict_plugins_is_0_or_1(monkeypatch, text, strict):
    monkeypatch.setenv("MX_STRICT_PLUGINS", text)
    assert environment.strict_plugins() is strict


def test_another_value_of_strict_plugins_is_refused_where_plugins_load(site, monkeypatch):
    monkeypatch.setenv("MX_STRICT_PLUGINS", "maybe")
    with pytest.raises(SettingError, match=r"\[MX_STRICT_PLUGINS\] expected 0 or 1, got 'maybe'"):
        plugins.plugins()
