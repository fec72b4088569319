# SPDX-License-Identifier: Apache-2.0
"""Processes that are killed, stopped, or do something else: an error that names them, never a wait without end."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from contextlib import suppress
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


def memory_of(pid: int) -> set[str]:
    """Files of shared memory that a process has mapped, and that have a name."""
    found = re.findall(r" (/dev/shm/.*)$", Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE)
    return {name for name in found if not name.endswith(" (deleted)")}


def kill_one(start: Any, gone: Any, workers: int, victim: str, delay: float, servers: int = 0) -> None:
    job = start(LOOP, workers, "-s", str(servers))
    found = pids(job, workers)
    named = {f"worker {rank}": pid for rank, pid in found.items()}
    named |= {f"server {rank}": pid for rank, pid in enumerate(job.servers())}
    time.sleep(delay)
    memory = set().union(*map(memory_of, named.values()))
    os.kill(named[victim], signal.SIGKILL)
    killed = time.time()
    assert job.wait(60) == 128 + signal.SIGKILL, job.text
    check_survivors(job, set(found) - {int(victim[-1])} if "worker" in victim else set(found), killed)
    for message in re.findall(r"survivor \d heard at .*", job.text):
        assert f"{victim} (process {named[victim]}" in message and "killed by signal 9" in message, message
    gone(list(named.values()))
    left = set(filter(os.path.exists, memory))
    assert not left, f"shared memory was left behind: {left}"


def check_survivors(job: Any, ranks: set[int], since: float) -> None:
    """All of them have raised an error soon, and had no wrong sum before."""
    assert "a wrong sum" not in job.text, job.text
    heard = re.findall(r"survivor (\d) heard at ([\d.]+): PeerLostError", job.text)
    assert {int(rank) for rank, _ in heard} == ranks, job.text
    for _, at in heard:
        assert float(at) - since < LIMIT, job.text


@pytest.mark.long
@pytest.mark.parametrize(
    ("workers", "victim"), [(2, "worker 1"), pytest.param(3, "worker 0", marks=pytest.mark.slow)]
)
def test_a_killed_worker_is_named(start: Any, gone: Any, workers: int, victim: str) -> None:
    kill_one(start, gone, workers, victim, random.random())


@pytest.mark.parametrize(
    "part",
    [pytest.param(part, marks=pytest.mark.long if part < 5 else pytest.mark.slow) for part in range(10)],
)
def test_processes_are_killed_at_random_moments(start: Any, gone: Any, part: int) -> None:
    """A hundred moments in all: half of them in jobs without servers, a quarter of them of a server."""
    seed = random.randrange(2**32)
    print("seed", seed)
    moments = random.Random(seed)
    for turn in range(10):
        workers, servers = moments.choice((2, 2, 2, 3)), part % 2 * moments.choice((1, 2))
        role, count = ("server", servers) if servers and turn % 2 else ("worker", workers)
        victim = f"{role} {moments.randrange(count)}"
        kill_one(start, gone, workers, victim, 2 * moments.random() ** 2, servers)


@pytest.mark.slow
@pytest.mark.parametrize(("servers", "victim"), [(0, "worker 1"), (1, "worker 0"), (1, "server 0")])
def test_a_stopped_process_is_named(start: Any, gone: Any, servers: int, victim: str) -> None:
    """It goes on after 30 seconds, unless the launcher has ended it before."""
    job = start(LOOP, 2, "-s", str(servers), "--grace", "40")
    found = pids(job, 2)
    named = {f"worker {rank}": pid for rank, pid in found.items()}
    named |= {f"server {rank}": pid for rank, pid in enumerate(job.servers())}
    os.kill(named[victim], signal.SIGSTOP)
    stopped = time.time()
    ranks = set(found) - {int(victim[-1])} if "worker" in victim else set(found)
    job.wait_for(
        rf"survivor \d heard .*{victim} \(process {named[victim]}.*no sign of life", len(ranks), 30.0
    )
    check_survivors(job, ranks, stopped)
    time.sleep(max(0.0, stopped + 30.0 - time.time()))
    with suppress(ProcessLookupError):
        os.kill(named[victim], signal.SIGCONT)
    assert job.wait(60) != 0, job.text
    assert "a wrong sum" not in job.text, job.text
    gone(list(named.values()))


@pytest.mark.slow
@pytest.mark.parametrize(("servers", "victim"), [(0, "worker"), (1, "worker"), (1, "server")])
def test_a_process_that_is_stopped_for_a_moment_is_waited_for(start: Any, servers: int, victim: str) -> None:
    job = start(
        LOOP.replace("turn += 1", "turn += 1; print('turn', turn, flush=True)"), 2, "-s", str(servers)
    )
    found = pids(job, 2)
    pid = found[1] if victim == "worker" else job.servers()[0]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(5.0)
    before = len(re.findall("turn", job.text))
    os.kill(pid, signal.SIGCONT)
    job.wait_for("turn", before + 100)
    job.process.send_signal(signal.SIGINT)
    job.wait(30)
    assert "a wrong sum" not in job.text and "no sign of life" not in job.text, job.text


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize("servers", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_an_interrupted_barrier_ends_the_job(start: Any, servers: str) -> None:
    job = start(INTERRUPTED, 2, "-s", servers, "--deadline", "60")
    found = job.wait_for(r"refused (\d) .*barrier was interrupted while it waited", 4, 40.0)
    assert set(found) == {"0", "1"} and "interrupted" in job.text and "passed" not in job.text, job.text
    job.wait(40)


def listening(pids: list[int]) -> set[str]:
    """Addresses, in hexadecimal, at which processes wait for others."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):
                inodes |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(descriptor)))
    found = set()
    for kind, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == state and fields[9] in inodes:
                found.add(fields[1].partition(":")[0])
    return found


@pytest.mark.parametrize("servers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_nothing_listens_beyond_this_machine_or_outlives_a_killed_launcher(
    start: Any, gone: Any, servers: int
) -> None:
    job = start(LOOP, 2, "-s", str(servers))
    found = [*pids(job, 2).values(), *job.servers()]
    assert len(found) == 2 + servers
    assert listening([job.process.pid, *found]) == {"0100007F"}  # the hub, at 127.0.0.1
    job.process.kill()
    job.process.wait()
    gone(found)


@pytest.mark.long
def test_nothing_is_left_of_workers_that_are_killed_while_mpi_begins(start: Any) -> None:
    """They have shared memory by then, and have not removed its name."""
    program = """
import os, re, signal, time
import mx
from mx_kvstore_mpi import mpi

def killed():
    with open("/proc/self/maps") as file:
        names = set(re.findall(r"(/dev/shm/mpich_shm_\\S+)", file.read()))
    print("has", *names, flush=True)
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)

mpi._unlink_shared_memory = killed
mx.kv.create("dist_sync")
"""
    job = start(program, 2)
    assert job.wait(60) == 128 + signal.SIGKILL, job.text
    names = job.wait_for(r"has (/dev/shm/mpich_shm_\S+)", 2)
    assert not list(filter(os.path.exists, names)), job.text


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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
