# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from mx_core import lifecycle, plugins

RECORDING = """
    import builtins
    import mx_core

    def note(text):
        builtins.mx_events.append(text)

    {register}

    @mx_core.hookimpl
    def mx_fork(stage):
        note(f"{name} {{stage}}")

    @mx_core.hookimpl
    def mx_shutdown():
        note("{name} shutdown")
        {last}
"""


@pytest.fixture
def events(site, monkeypatch):
    """Plug-ins whose names are in the wrong order for what they are."""
    import builtins

    def source(name, hook="", last="pass"):
        register = f"def {hook}: registry.add{last_args[hook]}" if hook else ""
        return RECORDING.format(name=name, register=register, last=last)

    last_args = {
        "mx_register_engines(registry)": '("E", dict)',
        "mx_register_storage_managers(registry)": '("cpu", "S", dict)',
        "mx_register_kvstores(registry)": '("K", dict)',
    }
    monkeypatch.setattr(builtins, "mx_events", [], raising=False)
    site.add("c-engine", source("engine", "mx_register_engines(registry)"))
    site.add("z-storage", source("storage", "mx_register_storage_managers(registry)"))
    site.add("a-store", source("store", "mx_register_kvstores(registry)", "raise OSError('late')"))
    plugins.plugins()
    return builtins.mx_events


def test_shutdown_tells_users_before_what_they_use_and_survives_errors(events, capsys):
    lifecycle.shutdown()
    assert events == ["store shutdown", "engine shutdown", "storage shutdown"]
    assert "mx_shutdown() of plug-in 'a-store'" in capsys.readouterr().err
    lifecycle.shutdown()
    assert len(events) == 3


def test_ctrl_c_in_a_shutdown_hook_does_not_keep_the_others_from_hearing(site, monkeypatch, capsys):
    heard = []
    monkeypatch.setattr("builtins.mx_heard", heard, raising=False)
    monkeypatch.setattr(lifecycle, "_interrupted", False)
    hook = "import builtins\nfrom mx_core import lifecycle\ndef mx_shutdown():\n    {}"
    site.add("b-first", hook.format("raise KeyboardInterrupt"))
    site.add("a-second", hook.format("builtins.mx_heard.append(lifecycle.interrupted())"))
    plugins.plugins()
    lifecycle.shutdown()
    assert heard == [True]
    assert "mx_shutdown() of plug-in 'b-first' was interrupted" in capsys.readouterr().err


RINGS = """
import builtins, signal
from mx_core import lifecycle

def mx_shutdown():
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        {finally_}

def mx_fork(stage):
    if stage == {stage!r}:
        mx_shutdown()
"""
HEARS = """
import builtins
from mx_core import lifecycle

def mx_shutdown():
    builtins.mx_heard.append(lifecycle.interrupted())

def mx_fork(stage):
    mx_shutdown()
"""


@pytest.fixture
def heard(monkeypatch):
    heard: list[bool] = []
    monkeypatch.setattr("builtins.mx_heard", heard, raising=False)
    monkeypatch.setattr(lifecycle, "_interrupted", False)
    monkeypatch.setattr(
        lifecycle, "_current", None
    )  # and again after the test: no later fork calls its plug-ins
    return heard


@contextlib.contextmanager
def rung(kind):
    """SIGUSR1 raises an error."""

    def ring(*_):
        raise kind

    before = signal.signal(signal.SIGUSR1, ring)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("kind", [SystemExit, TimeoutError, GeneratorExit])
@pytest.mark.parametrize("finally_", ["pass", "raise ValueError"])
def test_what_a_handler_raises_in_shutdown_is_raised_when_all_have_heard(site, heard, capsys, kind, finally_):
    site.add("b-first", RINGS.format(finally_=finally_, stage="never"))
    site.add("a-second", HEARS)
    plugins.plugins()
    with rung(kind), pytest.raises(kind):
        lifecycle.shutdown()
    assert heard == [True]
    text = f"mx: mx_shutdown() of plug-in 'b-first' was interrupted by {kind()!r}\n"
    assert capsys.readouterr().err == text, "the plug-in is not at fault"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, TimeoutError])
@pytest.mark.parametrize("stage", ["before", "parent", "child"])
def test_what_a_handler_raises_at_a_fork_the_program_raises_after_it(site, heard, capsys, kind, stage):
    site.add("b-first", RINGS.format(finally_="pass", stage=stage))
    site.add("a-second", HEARS)
    plugins.plugins()
    parent = os.getpid()
    with rung(kind):
        try:
            os.fork()
            raised = False
        except kind:
            raised = True
    if os.getpid() != parent:
        os._exit((raised == (stage == "child")) + 2 * (heard == [False, False]))
    assert os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]) == 3
    assert raised == (stage != "child")
    assert heard == [False, False]
    assert capsys.readouterr().err == ""


class _Stream:
    """An error stream that cannot be written, or whose writing is interrupted once."""

    def __init__(self, errors):
        self.errors = errors

    def write(self, text):
        if self.errors:
            raise self.errors.pop()

    def flush(self):
        pass


@pytest.mark.parametrize("raised", ["ValueError", "KeyboardInterrupt"])
@pytest.mark.parametrize("stream", [None, _Stream([BrokenPipeError()] * 9), _Stream([KeyboardInterrupt()])])
def test_all_hear_of_the_end_where_nothing_can_be_printed(site, heard, monkeypatch, raised, stream):
    site.add("b-first", f"def mx_shutdown():\n    raise {raised}")
    site.add("a-second", HEARS)
    plugins.plugins()
    monkeypatch.setattr(sys, "stderr", stream)
    with contextlib.suppress(KeyboardInterrupt):
        lifecycle.shutdown()
    assert len(heard) == 1


def test_an_error_of_the_plug_in_s_own_kind_is_its_fault(site, heard, capsys):
    site.add("b-first", "def mx_shutdown():\n    raise GeneratorExit('mine')")
    site.add("a-second", HEARS)
    plugins.plugins()
    lifecycle.shutdown()
    assert heard == [False]
    text = capsys.readouterr().err
    assert text.startswith("mx: mx_shutdown() of plug-in 'b-first':\nTraceback") and "mine" in text


def test_a_process_is_interrupted_when_nobody_caught_ctrl_c(monkeypatch):
    monkeypatch.setattr(sys, "last_type", ValueError, raising=False)
    assert not lifecycle.interrupted()
    monkeypatch.setattr(sys, "last_type", KeyboardInterrupt)
    assert lifecycle.interrupted()
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert not lifecycle.interrupted()


def test_fork_goes_inwards_before_and_outwards_after(events):
    lifecycle.fork("before")
    lifecycle.fork("child")
    assert events == [
        "store before", "engine before", "storage before",
        "storage child", "engine child", "store child",
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_real_fork_calls_the_hooks_on_both_sides(events):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, events[-1].encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 100) == b"store child"
    assert events[-1] == "store parent" and "engine before" in events


def test_the_end_of_the_interpreter_calls_shutdown(tmp_path):
    info = tmp_path / "mx_last-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mx-last\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[mx.plugins.v1]\nlast = last_plugin\n")
    (tmp_path / "last_plugin.py").write_text("def mx_shutdown():\n    print('the end')\n")
    code = textwrap.dedent("""
        from mx_core import plugins
        plugins.plugins()
        print('work')
    """)
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONPATH": str(tmp_path)}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    assert out.stdout.split("\n")[:2] == ["work", "the end"]
