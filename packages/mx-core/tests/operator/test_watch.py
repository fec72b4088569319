# SPDX-License-Identifier: Apache-2.0
"""Rules that run for too long are told once, with who brought the operator and where it is."""

from __future__ import annotations

import os
import threading
import time
import warnings

import pytest

from mx_core.errors import PluginWarning
from mx_core.operator import watch
from mx_core.plugins.registries import Entry, Provenance

pytestmark = pytest.mark.timeout(60)
ENTRY = Entry("operators", "acme", None, Provenance("acme", "acme-ops", "1.0"), "acme.py:7")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(watch, "SECONDS", 0.05)
    monkeypatch.setattr(watch, "_tell", lambda thread, run: found.append(run.rule))
    return found


def until(found: list[str], count: int) -> None:
    end = time.monotonic() + 30
    while len(found) < count and time.monotonic() < end:
        time.sleep(0.01)


def test_a_rule_that_runs_for_long_is_told_once(told: list[str]) -> None:
    with watch.watched(ENTRY, "infer_shape"):
        until(told, 1)
        time.sleep(0.3)
    assert told == ["infer_shape"]


def test_rules_that_return_are_not_told(told: list[str]) -> None:
    for _ in range(100):
        with watch.watched(ENTRY, "infer_shape"), watch.watched(ENTRY, "infer_type"):
            time.sleep(0.002)
    assert told == [] and watch._running == {}


def test_a_rule_that_raises_is_over(told: list[str]) -> None:
    with pytest.raises(ValueError), watch.watched(ENTRY, "infer_shape"):
        raise ValueError
    assert watch._running == {}


def test_threads_are_told_apart(told: list[str]) -> None:
    go = threading.Event()

    def run(rule: str) -> None:
        with watch.watched(ENTRY, rule):
            go.wait(30)

    threads = [threading.Thread(target=run, args=(rule,)) for rule in ("infer_shape", "infer_type")]
    for thread in threads:
        thread.start()
    until(told, 2)
    go.set()
    for thread in threads:
        thread.join()
    assert sorted(told) == ["infer_shape", "infer_type"]


def test_the_text_names_plugin_line_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    run = watch._Run(ENTRY, "infer_shape", time.monotonic() - 12)
    for action, shown in (("always", "warned"), ("error", "printed")):
        with warnings.catch_warnings(record=action == "always") as caught:
            warnings.simplefilter(action, PluginWarning)  # type: ignore[arg-type]
            watch._tell(threading.get_ident(), run)
        text = str(caught[0].message) if caught else capsys.readouterr().err
        assert (
            "operator 'acme' of plug-in 'acme' (acme-ops 1.0): infer_shape has not returned for 12 s" in text
        ), shown
        assert "test_watch.py" not in text.split(", now at")[0] and "watch.py" in text.split(", now at")[1]


def test_a_child_watches_anew(told: list[str]) -> None:
    with watch.watched(ENTRY, "infer_shape"):
        pid = os.fork()
        if pid == 0:
            with watch.watched(ENTRY, "infer_type"):
                pass
            os._exit(0 if watch._watcher is None else 1)
        assert os.waitpid(pid, 0)[1] == 0
    with watch.watched(ENTRY, "infer_shape"):
        until(told, 1)
    assert told == ["infer_shape"]
