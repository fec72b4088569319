# SPDX-License-Identifier: Apache-2.0
"""Rules that run for too long are reported once, with who brought the operator and where it is."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mx_core import operators
from mx_core.errors import PluginWarning
from mx_core.expression import Traced
from mx_core.operator import NoParams, SimpleOp, infer, watchdog
from mx_core.plugins.registries import Entry, Provenance

pytestmark = pytest.mark.timeout(60)
ENTRY = Entry("operators", "acme", None, Provenance("acme", "acme-ops", "1.0"), "acme.py:7")


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(watchdog, "SECONDS", 0.05)
    monkeypatch.setattr(watchdog, "_watchers", {})  # one that has begun looks in ten seconds only
    monkeypatch.setattr(watchdog, "_report", lambda thread, run: found.append(run.rule))
    return found


def until(found: list[str], count: int) -> None:
    end = time.monotonic() + 30
    while len(found) < count and time.monotonic() < end:
        time.sleep(0.01)


def test_a_rule_that_runs_for_long_is_reported_once(reports: list[str]) -> None:
    with watchdog.watched(ENTRY, "infer_shape"):
        until(reports, 1)
        time.sleep(0.3)
    assert reports == ["infer_shape"]


def test_rules_that_return_are_not_reported(reports: list[str]) -> None:
    for _ in range(100):
        with watchdog.watched(ENTRY, "infer_shape"), watchdog.watched(ENTRY, "infer_type"):
            time.sleep(0.002)
    assert reports == [] and watchdog._running == {}


def test_a_rule_that_raises_is_over(reports: list[str]) -> None:
    with pytest.raises(ValueError), watchdog.watched(ENTRY, "infer_shape"):
        raise ValueError
    assert watchdog._running == {}


def test_rules_of_two_threads_are_both_reported(reports: list[str]) -> None:
    go = threading.Event()

    def run(rule: str) -> None:
        with watchdog.watched(ENTRY, rule):
            go.wait(30)

    threads = [threading.Thread(target=run, args=(rule,)) for rule in ("infer_shape", "infer_type")]
    for thread in threads:
        thread.start()
    until(reports, 2)
    go.set()
    for thread in threads:
        thread.join()
    assert sorted(reports) == ["infer_shape", "infer_type"]


def test_the_text_names_plugin_line_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    run = watchdog._Run(ENTRY, "infer_shape", time.monotonic() - 12)
    for action, shown in (("always", "warned"), ("error", "printed")):
        with warnings.catch_warnings(record=action == "always") as caught:
            warnings.simplefilter(action, PluginWarning)  # type: ignore[arg-type]
            watchdog._report(threading.get_ident(), run)
        text = str(caught[0].message) if caught else capsys.readouterr().err
        assert (
            "operator 'acme' of plug-in 'acme' (acme-ops 1.0): infer_shape has not returned for 12 s" in text
        ), shown
        asked, _, running = text.partition(", now at")
        assert "test_watchdog.py" not in asked and "mx_core/operator/watchdog.py" in running


def test_a_child_watches_anew(reports: list[str]) -> None:
    with watchdog.watched(ENTRY, "infer_shape"):
        pid = os.fork()
        if pid == 0:
            with watchdog.watched(ENTRY, "infer_type"):
                pass
            os._exit(0 if watchdog._watchers == {} else 1)
        assert os.waitpid(pid, 0)[1] == 0
    with watchdog.watched(ENTRY, "infer_shape"):
        until(reports, 1)
    assert reports == ["infer_shape"]


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_what_is_watched_runs_where_no_thread_can_be_started(
    reports: list[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def start(thread: threading.Thread) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", start)
        with watchdog.watched(ENTRY, "infer_shape"):
            pass
        assert watchdog._running == {} and watchdog._watchers == {}
    with watchdog.watched(ENTRY, "infer_type"):
        until(reports, 1)
    assert reports == ["infer_type"]


def test_ctrl_c_while_the_thread_starts(reports: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", start)
        with pytest.raises(KeyboardInterrupt), watchdog.watched(ENTRY, "infer_shape"):
            pass
    assert watchdog._running == {} and watchdog._watchers == {}


@pytest.mark.parametrize("error", [OSError("my hook"), SystemExit("my hook")])
def test_a_hook_that_raises_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: BaseException
) -> None:
    asked: list[str] = []

    def show(message: Warning | str, *rest: object, **more: object) -> None:
        asked.append(str(message))
        raise error

    monkeypatch.setattr(watchdog, "SECONDS", 0.05)
    monkeypatch.setattr(watchdog, "_watchers", {})
    with warnings.catch_warnings():
        warnings.simplefilter("always", PluginWarning)
        warnings.showwarning = show
        for count in (1, 2):
            with watchdog.watched(ENTRY, "infer_shape"):
                until(asked, count)
            assert len(asked) == count
    assert f"(the warning failed: {type(error).__name__}: my hook)" in capfd.readouterr().err


def test_the_thread_ends_when_nothing_runs(reports: list[str]) -> None:
    with watchdog.watched(ENTRY, "infer_shape"):
        (watcher,) = watchdog._watchers.values()
    watcher.join(30)
    assert not watcher.is_alive() and watchdog._watchers == {}
    with watchdog.watched(ENTRY, "infer_type"):
        until(reports, 1)
    assert reports == ["infer_type"]


def test_threads_that_begin_together_start_one_watcher(reports: list[str]) -> None:
    watchers: set[threading.Thread] = set()
    together = threading.Barrier(8)

    def run() -> None:
        together.wait(30)
        with watchdog.watched(ENTRY, "infer_shape"):
            watchers.update(watchdog._watchers.values())
            together.wait(30)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(watchers) == 1 and watchdog._running == {}


def test_children_forked_amid_rules_of_other_threads_watch_too(reports: list[str]) -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            with watchdog.watched(ENTRY, "infer_shape"):
                time.sleep(0.0005)  # lets the forking thread run

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                with watchdog.watched(ENTRY, "infer_type"):
                    alone = list(watchdog._running) == [threading.get_ident()]
                os._exit(0 if alone and watchdog._running == {} and len(watchdog._watchers) == 1 else 1)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


class _Cube(SimpleOp[NoParams]):
    """A stranger's operator."""

    name = "test_strangers_cube"

    @staticmethod
    def function(p: NoParams, data: Traced) -> Traced:
        return data * data * data


def test_derivatives_of_derivatives_are_watched_as_their_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[str] = []

    @contextmanager
    def record(entry: Entry, rule: str) -> Iterator[None]:
        watched.append(entry.name)
        yield

    monkeypatch.setattr(infer, "watched", record)
    monkeypatch.setattr(_Cube, "brought_by", ENTRY)
    with operators.temporary(_Cube):
        for prefix in ("", "_backward_", "_backward_backward_"):
            op = operators.get(f"{prefix}test_strangers_cube")
            infer.infer_types(op, NoParams(), [0] * len(op.inputs(NoParams())))
            assert watched.pop() == "acme" and not watched, prefix
