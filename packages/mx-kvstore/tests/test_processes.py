# SPDX-License-Identifier: Apache-2.0
"""What launchers share: processes with names before their lines, and their ends."""

from __future__ import annotations

import os
import signal
import sys
import time
import weakref

import pytest

from mx_kvstore.processes import Process, Stopped, Stops, described, end, lines, watch


def test_ends_are_described() -> None:
    assert described(3) == "has ended with exit status 3"
    assert described(-9) == "was killed by signal 9 (SIGKILL)"


def test_parts_of_lines_come_before_their_end() -> None:
    source, target = os.pipe()
    found = lines(source)
    os.write(target, b"one\r\ntwo\n\nthree\rfour")
    assert [next(found) for _ in range(5)] == [b"one", b"two", b"", b"three", b"four"]  # four has no end
    os.write(target, b"\rstep 1\rstep 2")
    assert [next(found) for _ in range(2)] == [b"step 1", b"step 2"]
    os.write(target, b"half\r")
    os.write(target, b"\nrest")
    os.close(target)
    assert list(found) == [b"half", b"rest"]
    os.close(source)


def test_lines_have_names_and_ends_are_watched(capfd: pytest.CaptureFixture[str]) -> None:
    code = "import sys; print('given', sys.stdin.read()); print('wrong', file=sys.stderr); sys.exit(int(sys.argv[1]))"
    jobs = [Process(f"job {i}", (sys.executable, "-c", code, str(i)), os.environ, b"all") for i in range(3)]
    for job in jobs:
        job.begin()
    ended: list[tuple[int, int]] = []
    watch(jobs, lambda place, status: ended.append((place, status)))  # type: ignore[func-returns-value]
    for job in jobs:
        job.finish_output()
    assert sorted(ended) == [(0, 0), (1, 1), (2, 2)]
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == [f"[job {i}] given all" for i in range(3)]
    assert sorted(err.splitlines()) == [f"[job {i}] wrong" for i in range(3)]


def test_what_refuses_to_end_is_killed_with_all_that_it_has_started() -> None:
    code = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork(); print('|'); time.sleep(60)"
    job = Process("", (sys.executable, "-u", "-c", code), os.environ)
    time.sleep(0.5)
    end([job], 0.3)
    assert job.poll() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        for _ in range(200):  # until whoever reaps orphans has seen it
            os.killpg(job.pid, 0)
            time.sleep(0.05)


class Thing:
    """Something that can have a weak reference."""


def test_a_signal_in_a_callback_that_lets_no_error_out_is_not_lost() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Stops() as stops:
        stops.check()
        thing = Thing()
        reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM))
        del thing
        assert reference() is None
        os.kill(os.getpid(), signal.SIGHUP)  # the first one counts
        process = Process("", ["true"], os.environ)
        with pytest.raises(Stopped) as found:
            watch([process], lambda place, status: False, look=stops.check)
        assert process.ended(10.0) == 0
        assert found.value.number == stops.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stops() as stops:
            os.kill(os.getpid(), signal.SIGHUP)
            stops.check()
    finally:
        signal.signal(signal.SIGHUP, before)
