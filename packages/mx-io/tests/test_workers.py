# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from mx_io.workers import Workers

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 11])
def test_results_and_errors_are_the_futures(count):
    workers = Workers(count, "test")
    futures = [workers.submit(divmod, 100, n) for n in range(50)]
    assert [future.result() for future in futures[1:]] == [divmod(100, n) for n in range(1, 50)]
    with pytest.raises(ZeroDivisionError):
        futures[0].result()
    workers.close()


def test_tasks_begin_in_the_order_of_submission():
    workers = Workers(1, "test")
    order: list[int] = []
    futures = [workers.submit(order.append, n) for n in range(100)]
    futures[-1].result()
    assert order == list(range(100))
    workers.close()


def test_closing_drops_what_is_queued():
    workers = Workers(1, "test")
    begun, go = threading.Event(), threading.Event()
    running = workers.submit(lambda: (begun.set(), go.wait(30)))
    queued = workers.submit(time.sleep, 1000)
    begun.wait(30)
    threading.Timer(0.05, go.set).start()
    workers.close()
    assert running.done() and queued.cancelled() and workers.closed
    assert workers.submit(int).cancelled()


def test_forgotten_workers_end():
    before = set(threading.enumerate())
    workers = Workers(3, "test")
    stopping = workers.stopping()
    started = set(threading.enumerate()) - before
    assert len(started) == 3 and not stopping()
    del workers
    for thread in started:
        thread.join(30)
        assert not thread.is_alive()
    assert stopping()


def test_a_forked_child_knows_and_ends():
    workers = Workers(2, "test")
    child = os.fork()
    if child == 0:
        known = workers.forked
        workers.close()
        os._exit(0 if known else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not workers.forked and workers.submit(int).result() == 0
    workers.close()


EXIT = """
import time
from mx_io.workers import Workers
workers = Workers(2, "test")
for _ in range(1000):
    workers.submit(time.sleep, 0.1)
"""


def test_exit_waits_for_running_tasks_only():
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", EXIT], check=True, timeout=40)
    assert time.monotonic() - start < 30  # the queue would take 50 seconds


INTERRUPTED = """
import signal, threading, time
from mx_io.workers import Workers
signal.signal(signal.SIGINT, signal.default_int_handler)
workers = Workers(2, "test")
for _ in range(4):
    workers.submit(time.sleep, 30)
timer = threading.Timer(0.3, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
timer.daemon = True
timer.start()
{end}
"""


@pytest.mark.parametrize("end", ["time.sleep(30)", ""], ids=["while it works", "while it exits"])
def test_after_ctrl_c_exit_waits_no_longer_than_a_moment(end):
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(end=end)], capture_output=True, text=True, timeout=60
    )
    assert time.monotonic() - start < 8  # ten seconds otherwise
    assert ("KeyboardInterrupt" in done.stderr) == bool(end)
