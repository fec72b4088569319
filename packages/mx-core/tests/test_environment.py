# SPDX-License-Identifier: Apache-2.0
import pytest

from mx_core import environment


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


def test_every_variable_has_a_sentence():
    assert all(name.startswith("MX") and text for name, text in environment.VARIABLES.items())
