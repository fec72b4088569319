# SPDX-License-Identifier: Apache-2.0
"""Contexts, environment variables, attempts and exceptions of tests."""

from __future__ import annotations

import os

import numpy as np
import pytest

import mx
from mx import test_utils as utils


def test_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_PROBE", "before")
    with utils.environment("MX_PROBE", "inside"), utils.environment({"MX_OTHER": "1"}):
        assert (os.environ["MX_PROBE"], os.environ["MX_OTHER"]) == ("inside", "1")
    assert os.environ["MX_PROBE"] == "before" and "MX_OTHER" not in os.environ
    utils.assert_exception(int, ValueError, "x")
    with pytest.raises(AssertionError, match="raised no ValueError"):
        utils.assert_exception(int, ValueError, "1")
    utils.set_default_context(mx.cpu(1))
    assert utils.default_context() == mx.cpu(1)
    utils.set_default_context(mx.cpu())
    assert mx.nd.zeros((1,)).context == mx.cpu() and list(utils.list_gpus()) == list(range(mx.num_gpus()))
    attempts = []

    @utils.retry(3)
    def unsteady() -> None:
        attempts.append(1)
        assert len(attempts) == 3

    unsteady()


def test_variables_are_put_back_after_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_PROBE", "before")
    with pytest.raises(KeyError), utils.environment({"MX_PROBE": None, "MX_OTHER": 3}):
        assert "MX_PROBE" not in os.environ and os.environ["MX_OTHER"] == "3"
        raise KeyError
    assert os.environ["MX_PROBE"] == "before" and "MX_OTHER" not in os.environ
    for wrong in ((), ("A",), ("A", "b", "c")):
        with (
            pytest.raises(ValueError, match="expected a name and a value, or a mapping"),
            utils.environment(*wrong),
        ):
            raise AssertionError


def test_attempts_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    attempts = []

    @utils.retry(3)
    def failing(number: int, *, more: int) -> None:
        attempts.append((number, more))
        raise AssertionError(f"attempt {len(attempts)}")

    with pytest.raises(AssertionError, match="attempt 3"):
        failing(1, more=2)
    assert attempts == [(1, 2)] * 3 and failing.__name__ == "failing"
    assert capsys.readouterr().err.splitlines() == [f"failing: attempt {i}; once more" for i in (1, 2)]
    with pytest.raises(ValueError, match="n: expected at least 1, got 0"):
        utils.retry(0)

    @utils.retry(2)
    def broken() -> None:
        attempts.append((0, 0))
        raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert len(attempts) == 4


def test_exceptions_of_a_type() -> None:
    utils.assert_exception(int, ValueError, "12", base=2)
    with pytest.raises(TypeError):
        utils.assert_exception(int, ValueError, "1", base="2")


def test_what_native_code_writes_is_discarded(capfd: pytest.CaptureFixture[str]) -> None:
    os.write(2, b"seen ")
    with utils.discard_stderr():
        os.write(2, b"unseen ")
    os.write(2, b"again")
    assert capfd.readouterr().err == "seen again"


def test_the_default_context_is_replaced_not_stacked() -> None:
    for number in (1, 2):
        utils.set_default_context(mx.cpu(number))
        assert mx.nd.zeros((1,)).context == utils.default_context() == mx.cpu(number)
    utils.set_default_context(mx.cpu())
    assert utils.default_context() == mx.cpu() and utils.default_dtype() is np.float32
