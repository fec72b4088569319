# SPDX-License-Identifier: Apache-2.0
"""Processes that are killed, stopped, or do something else: an error that names them, never a wait without end."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

#: seconds in which survivors must know
LIMIT = 15.0

LOOP = """
import os, time
import mx
store = mx.kv.create("dist_sync")
for key, n in (("small", 10), ("large", 400_000)):
    store.init(key, mx.nd.zeros((n,)))
small, large = mx.nd.zeros((10,)), mx.nd.zeros((400_000,))
print("pid", os.getpid(), "of", store.rank)
turn = 0
try:
    while True:
        value = turn % 1000 + store.rank
        store.pushpull("small", mx.nd.full((10,), value), out=small, priority=0)
        store.pushpull("large", mx.nd.full((400_000,), value), out=large, priority=-1)
        total = sum(turn % 1000 + rank for rank in range(store.num_workers))
        for out in (large, small):
            if not (out.asnumpy() == total).all():
                print("a wrong sum", turn, out)
                os._exit(3)
        turn += 1
except mx.MXNetError as error:
    print(f"survivor {store.rank} heard at {time.time():.3f}:", type(error).__name__, error)
    for call in (store.barrier, lambda: store.push("small", small)):  # the failure stays
        try:
            call()
        except mx.MXNetError as again:
            assert str(again) == str(error), again
        else:
            raise AssertionError("no failure")
    raise
"""


def pids(job: Any, workers: int) -> dict[int, int]:
    return {int(rank): int(pid) for pid, rank in job.wait_for(r"pid (\d+) of (\d)", workers)}


def kill_one(start: Any, gone: Any, workers: int, victim: int, delay: float) -> None:
    before = set(Path("/dev/shm").glob("mpich_shm_*"))
    job = start(LOOP, workers)
    found = pids(job, workers)
    time.sleep(delay)
    os.kill(found[victim], signal.SIGKILL)
    killed = time.time()
    assert job.wait(60) == 128 + signal.SIGKILL, job.text
    assert "a wrong sum" not in job.text, job.text
    heard = re.findall(r"survivor (\d) heard at ([\d.]+): PeerLostError (.*)", job.text)
    assert {int(rank) for rank, *_ in heard} == set(found) - {victim}, job.text
    for _, at, message in heard:
        assert float(at) - killed < LIMIT, job.text
        assert f"worker {victim}" in message and "killed by signal 9" in message, message
    gone(list(found.values()))
    limit = time.monotonic() + 20  # a job of another test that starts has some for a moment
    while left := set(Path("/dev/shm").glob("mpich_shm_*")) - before:
        assert time.monotonic() < limit, f"shared memory was left behind: {left}"
        time.sleep(0.1)


@pytest.mark.parametrize(("workers", "victim"), [(2, 1), pytest.param(3, 0, marks=pytest.mark.slow)])
def test_a_killed_worker_is_named(start: Any, gone: Any, workers: int, victim: int) -> None:
    kill_one(start, gone, workers, victim, random.random())


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_a_worker_is_killed_at_random_moments(start: Any, gone: Any, part: int) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    moments = random.Random(seed)
    for _ in range(10):
        workers = moments.choice((2, 2, 2, 3))
        kill_one(start, gone, workers, moments.randrange(workers), 2 * moments.random() ** 2)


@pytest.mark.slow
def test_a_stopped_worker_is_named(start: Any, gone: Any) -> None:
    job = start(LOOP, 2)
    found = pids(job, 2)
    os.kill(found[1], signal.SIGSTOP)
    stopped = time.time()
    assert job.wait(60) != 0, job.text
    ((at, message),) = re.findall(r"survivor 0 heard at ([\d.]+): PeerLostError (.*)", job.text)
    assert float(at) - stopped < LIMIT and "worker 1" in message and "no sign of life" in message
    gone(list(found.values()))


def test_ctrl_c_ends_everything(start: Any, gone: Any) -> None:
    job = start(
        LOOP.replace(
            "import os, time",
            "import os, subprocess, time; print('pid', subprocess.Popen(['sleep', '300']).pid, 'of', 8)",
        ),
        2,
    )
    found = [int(pid) for pid, _ in job.wait_for(r"pid (\d+) of (\d)", 4)]
    job.process.send_signal(signal.SIGINT)
    assert job.wait(30) == 128 + signal.SIGINT, job.text
    gone(found)


INTERRUPTED = """
import os, signal, threading, time
import mx
store = mx.kv.create("dist_sync")
if store.rank == 0:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        store.barrier()
    except KeyboardInterrupt:
        print("interrupted")
else:
    time.sleep(1.5)  # the other one has given up by then
for turn in range(2):
    try:
        store.barrier()
        print("passed", store.rank)
    except mx.MXNetError as error:
        print("refused", store.rank, error)
"""


@pytest.mark.parametrize("servers", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_an_interrupted_barrier_ends_the_job(start: Any, servers: str) -> None:
    job = start(INTERRUPTED, 2, "-s", servers, "--deadline", "60")
    found = job.wait_for(r"refused (\d) .*barrier was interrupted while it waited", 4, 40.0)
    assert set(found) == {"0", "1"} and "interrupted" in job.text and "passed" not in job.text, job.text
    job.wait(40)


def test_nothing_outlives_a_killed_launcher(start: Any, gone: Any) -> None:
    job = start(LOOP, 2)
    found = pids(job, 2)
    job.process.kill()
    job.process.wait()
    gone(list(found.values()))


def test_a_failing_program_ends_the_job(start: Any) -> None:
    program = """
import mx
store = mx.kv.create("dist_sync")
if store.rank == 1:
    raise OSError("no such data")
store.barrier()
"""
    job = start(program, 2)
    assert job.wait(40) == 1, job.text
    pattern = r"\[worker 0\] mx_kvstore_mpi.errors.PeerLostError: \[KVStore\] worker 1 .* has ended"
    assert re.search(pattern, job.text), job.text


DIFFER = """
import mx
store = mx.kv.create("dist_sync")
if CASE in ("pushes", "late"):
    store._world.timeout = store._world.waiter.timeout = 1.0
try:
    if CASE == "keys":
        out = mx.nd.zeros((2,))
        store.broadcast("ab"[store.rank], mx.nd.zeros((2,)), out=out)
        out.wait_to_read()
    elif CASE == "steps":
        store.init("a", mx.nd.zeros((2,)))
        store.save = [store.barrier, lambda: store._rounds.do("something", lambda comm: None)][store.rank]()
    elif CASE == "states":
        weight = mx.nd.zeros((2,))
        store.init("a", weight)
        store.set_optimizer(mx.optimizer.create("sgd", momentum=0.9))
        for step in range(2):
            store.pushpull("a", mx.nd.ones((2,)), out=weight)
            store.save_optimizer_states(f"{__file__}-{store.rank}-{step}")
        store.load_optimizer_states(f"{__file__}-{store.rank}-1")
        store.load_optimizer_states(f"{__file__}-{store.rank}-{store.rank}")
    elif CASE == "pushes":
        store.init(["a", "b"], [mx.nd.zeros((2,))] * 2)
        out = mx.nd.zeros((2,))
        store.pushpull("ab"[store.rank], mx.nd.ones((2,)), out=out)
        out.wait_to_read()
    elif store.rank == 0:
        store.barrier()
    else:
        import time
        time.sleep(4)
        store.barrier()
except mx.MXNetError as error:
    print("refused", type(error).__name__, error)
else:
    raise AssertionError("no error")
"""


@pytest.mark.parametrize(
    ("case", "kind", "words"),
    [
        ("keys", "ProtocolError", "first value of key '[ab]'.*the same order"),
        pytest.param("steps", "ProtocolError", "the same methods in the same order", marks=pytest.mark.slow),
        pytest.param(
            "states",
            "ProtocolError",
            r"load_optimizer_states \(state of 'a' \(2,\) \w+\)",
            marks=pytest.mark.slow,
        ),
        ("pushes", "PeerTimeoutError", r"waited 1 s: the push of key '[ab]'|\d worker"),
        pytest.param(
            "late",
            "PeerTimeoutError|PeerLostError",
            r"waited 1 s: barrier \(worker 1 computes\)|lost",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_workers_that_differ_are_told(start: Any, case: str, kind: str, words: str) -> None:
    job = start(f"CASE = {case!r}\n{DIFFER}", 2, "--deadline", "60")
    job.wait_for(f"refused (?:{kind}) .*(?:{words})", 1, 40.0)
    job.wait(40)


def test_without_a_launcher_it_says_what_to_type(start: Any) -> None:
    job = start("import mx; mx.kv.create('dist_sync')", 1, runner=("env",))
    assert job.wait() == 1
    job.wait_for("type `mx launch -n 2 python train.py`, or `mpiexec -n 2 python train.py`")


def test_mpiexec_starts_workers_too(start: Any) -> None:
    import sys

    program = """
import mx
store = mx.kv.create("dist_sync")
store.init(3, mx.nd.zeros((2,)))
out = mx.nd.zeros((2,))
store.pushpull(3, mx.nd.ones((2,)) * (store.rank + 1), out=out)
assert (out.asnumpy() == 3).all() and store.num_workers == 2
print("|", end="")  # one byte, since mpiexec mixes what workers print
"""
    job = start(program, 2, runner=(str(Path(sys.executable).with_name("mpiexec")), "-n", "2"))
    assert job.wait() == 0, job.text
    job.wait_for(r"\|", 2)


@pytest.mark.slow
def test_an_mpi_that_is_initialised_otherwise_is_told(start: Any) -> None:
    program = """
from mpi4py import MPI
import mx
mx.kv.create("dist_sync")
"""
    job = start(program, 2)
    assert job.wait(60) == 1, job.text
    job.wait_for("MPI found 1 processes, the job has 2: mpi4py.MPI was imported before the store was created")
