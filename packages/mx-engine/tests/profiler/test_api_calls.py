# SPDX-License-Identifier: Apache-2.0
"""Calls of public functions in the profile."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mx_core import services
from mx_engine import profiler
from mx_engine.profiler import api_calls, session

pytestmark = pytest.mark.timeout(60)

Trace = Callable[[Path, str], list[dict[str, Any]]]


def calls() -> list[str]:
    return [s.name for s in session.current().recording().spans if s.kind == "api"]


def test_calls_from_outside_are_recorded_and_those_inside_are_not(path: Path, trace: Trace) -> None:
    engine = services.engine()
    profiler.set_config(filename=str(path), profile_api=True)
    profiler.set_state("run")
    services.device_count("cpu")
    engine.push(len, name="fails")
    with pytest.raises(TypeError), profiler.scope("first"):
        engine.wait_for_all()
    profiler.set_state("stop")
    services.device_count("cpu")
    names = calls()
    assert names.count("mx_core.device_count") == 1
    assert names.count("first:mx_engine.wait_for_all") == 1
    assert not [name for name in names if "profiler" in name]
    profiler.dump()
    spans = [e for e in trace(path, "X") if e["cat"] == "api"]
    assert len(spans) == len(names) and all(e["dur"] >= 0 for e in spans)
    assert "mx_core.device_count" in json.loads(profiler.dumps(format="json"))["Time"]["api"]


def test_calls_of_threads_that_begin_later_are_recorded() -> None:
    profiler.set_config(profile_api=True)
    profiler.set_state("run")
    thread = threading.Thread(target=services.engine)
    thread.start()
    thread.join()
    profiler.set_state("stop")
    spans = [s for s in session.current().recording().spans if s.name == "mx_core.engine"]
    assert len({s.thread for s in spans} - {threading.get_native_id()}) == 1


def test_calls_cost_nothing_when_they_are_not_asked_for() -> None:
    profiler.set_config()
    profiler.set_state("run")
    assert sys.getprofile() is None
    services.engine()
    assert calls() == []


def test_calls_are_kept_after_one_whose_end_was_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that sets a hook of its own within a call takes the end of it."""
    monkeypatch.setattr(api_calls.sys, "setprofile", lambda hook: None)
    kept: list[str] = []
    calls = api_calls.ApiCalls(lambda span: kept.append(span.name))
    calls._on = True
    hook = calls._hook()
    monkeypatch.setattr(api_calls, "_code_name", lambda frame: frame.f_code.co_name)

    def inner() -> None:
        hook(sys._getframe(), "call", None)
        hook(sys._getframe(), "return", None)

    def lost() -> None:
        hook(sys._getframe(), "call", None)
        inner()

    lost()
    inner()
    assert kept == ["inner"]


def test_a_call_ends_though_one_within_it_has_no_end_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 tells the beginning of such a call of a class of pybind11, `with` ends by it, and no end."""
    watched: list[Any] = []
    monkeypatch.setattr(api_calls.sys, "setprofile", watched.append)
    kept: list[str] = []
    calls = api_calls.ApiCalls(lambda span: kept.append(span.name))
    calls._on = True
    hook = calls._hook()
    monkeypatch.setattr(api_calls, "_code_name", lambda frame: frame.f_code.co_name)
    monkeypatch.setattr(api_calls, "_builtin_name", lambda function: function.__name__)

    def inner() -> None:
        hook(sys._getframe(), "call", None)
        hook(sys._getframe(), "c_call", len)  # its end is never told
        hook(sys._getframe(), "return", None)

    def outer() -> None:
        hook(sys._getframe(), "call", None)
        inner()
        hook(sys._getframe(), "return", None)
        assert kept == ["outer"]
        hook(sys._getframe(), "c_call", max)  # a call in C from here is the program's now
        inner()
        hook(sys._getframe(), "c_return", max)

    outer()
    assert kept == ["outer", "max"] and not watched
