# SPDX-License-Identifier: Apache-2.0
"""Workers and servers that are killed at random moments: what the policy says, the exact values, never a wrong sum."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from typing import Any

import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: elements from which both servers have a part
BOUND = {"MXNET_KVSTORE_BIGARRAY_BOUND": "50000"}

STEPS = """
import hashlib, os, time
import mx

store = mx.kv.create("dist_sync")
rank = store.rank
shapes = {"small": (7,), "large": (200_001,)}
outs = {key: mx.nd.zeros(shape) for key, shape in shapes.items()}
for key, shape in shapes.items():
    store.init(key, mx.nd.ones(shape))
store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.125, momentum=0.5))
first = store.resume() if RESUMES else 0
for step in range(first, 60):
    for priority, (key, shape) in enumerate(shapes.items()):
        gradient = mx.nd.full(shape, (rank + 1) * (step % 5) + priority)
        store.pushpull(key, gradient, out=outs[key], priority=-priority)
    for out in outs.values():
        out.wait_to_read()
    if step == first:
        print("pid", os.getpid(), "of", rank, "start", store.restarts)
    time.sleep(PAUSE)
digest = hashlib.sha256(b"".join(out.asnumpy().tobytes() for out in outs.values())).hexdigest()
print("digest", digest)
"""


def digests(job: Any, workers: int) -> set[str]:
    assert job.wait(400) == 0, job.text
    found = job.wait_for("digest ([0-9a-f]+)", workers)
    job.check_nothing_is_left()
    return set(found)


def workers_of(job: Any) -> dict[int, int]:
    """The last process of each worker that has begun."""
    return {int(rank): int(pid) for pid, rank in re.findall(r"pid (\d+) of (\d)", job.text)}


@pytest.mark.parametrize("resumes", [False, True])
def test_the_values_are_those_of_a_job_without_losses(start: Any, resumes: bool) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    moments = random.Random(seed)
    program = STEPS.replace("RESUMES", str(resumes))
    calm = start(program.replace("PAUSE", "0"), 2, "-s", "2", **BOUND)
    expected = digests(calm, 2)
    assert len(expected) == 1
    job = start(
        program.replace("PAUSE", "0.2"), 2, "-s", "2", "--on-loss", "restart", "--max-restarts", "9",
        MX_KVSTORE_RAY_CHECKPOINT="1", **BOUND,
    )  # fmt: skip
    job.wait_for(r"pid \d+ of \d", 2)
    killed = []
    for victim in ("server", "worker", "server", "worker"):
        time.sleep(4 * moments.random())
        living = job.servers() if victim == "server" else list(workers_of(job).values())
        if living and job.process.poll() is None:
            pid = moments.choice(sorted(living))
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it had ended
            killed.append(victim)
    assert digests(job, 2) == expected, (killed, job.text)
    assert killed.count("server") and killed.count("worker"), killed
    assert "it is started anew" in job.text


SUMS = """
import os, time
import numpy as np
import mx

store = mx.kv.create("dist_sync")
rank, workers = store.rank, store.num_workers
shapes = {"small": (7,), "large": (200_001,)}
outs = {key: mx.nd.zeros(shape) for key, shape in shapes.items()}
for key, shape in shapes.items():
    store.init(key, mx.nd.zeros(shape))
step, less = 0, False
try:
    while step < STEPS:
        step += 1
        for key, shape in shapes.items():
            store.pushpull(key, mx.nd.full(shape, 10.0**rank * (step % 7 + 1)), out=outs[key])
        for key, out in outs.items():
            found = set((np.unique(out.asnumpy()) / (step % 7 + 1)).tolist())
            assert found <= {LEFT, ALL}, (key, step, found)
            if less:
                assert found == {LEFT}, (key, step, found)
        less |= any((out.asnumpy() == LEFT * (step % 7 + 1)).any() for out in outs.values())
        if step == 1:
            print("pid", os.getpid(), "of", rank)
        time.sleep(0.05)
except mx.MXNetError as error:
    print(f"survivor {rank} heard at {time.time():.3f}:", type(error).__name__, error)
    for call in (store.barrier, lambda: store.push("small", outs["small"])):  # the failure stays
        try:
            call()
        except mx.MXNetError as again:
            assert str(again) == str(error), again
        else:
            raise AssertionError("no failure")
    raise
print("ended", rank, "with less" if less else "with all")
"""


def sums(steps: int, left: float, everyone: float) -> str:
    """The program for so many steps, with sums of the workers that are left, and of all."""
    return SUMS.replace("STEPS", str(steps)).replace("LEFT", str(left)).replace("ALL", str(everyone))


@pytest.mark.parametrize("victim", [0, 1])
def test_the_others_stop_with_an_error_that_names_the_lost(start: Any, victim: int) -> None:
    job = start(sums(100_000, 111.0, 111.0), 3, "-s", "2", **BOUND)
    job.wait_for(r"pid \d+ of \d", 3)
    pid = workers_of(job)[victim]
    time.sleep(random.random())
    os.kill(pid, signal.SIGKILL)
    killed = time.time()
    assert job.wait() == 128 + signal.SIGKILL, job.text
    heard = re.findall(r"survivor (\d) heard at ([\d.]+): PeerLostError (.*)", job.text)
    assert {int(rank) for rank, *_ in heard} == {0, 1, 2} - {victim}, job.text
    for _, at, message in heard:
        assert float(at) - killed < 15.0, job.text
        assert f"worker {victim} (process {pid}) was killed by signal 9 (SIGKILL)" in message
    said = f"mx launch: worker {victim} (process {pid}) was killed by signal 9 (SIGKILL)\n"
    assert job.text.count(said) == 1 and job.text.endswith(said), job.text
    job.check_nothing_is_left()


def test_the_others_go_on(start: Any) -> None:
    job = start(sums(60, 101.0, 111.0), 3, "-s", "2", MX_KVSTORE_RAY_ON_LOSS="continue", **BOUND)
    job.wait_for(r"pid \d+ of \d", 3)
    time.sleep(random.random())
    os.kill(workers_of(job)[1], signal.SIGKILL)
    assert job.wait() == 0, job.text
    assert sorted(job.wait_for(r"ended (\d with less)", 2)) == ["0 with less", "2 with less"]
    assert re.search(r"worker 1 .* was killed by signal 9 \(SIGKILL\); the others go on", job.text)
    job.check_nothing_is_left()


def test_a_stopped_worker_is_waited_for(start: Any) -> None:
    job = start(sums(20, 11.0, 11.0), 2, **BOUND)
    job.wait_for(r"pid \d+ of \d", 2)
    pid = workers_of(job)[1]
    os.kill(pid, signal.SIGSTOP)
    try:
        job.wait_for(r"worker 0\] waits for \d+ s: push \d+ of key", timeout=60.0)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert job.wait() == 0, job.text


def test_a_deadline_ends_a_wait(start: Any) -> None:
    job = start(sums(100_000, 11.0, 11.0), 2, "--deadline", "30", **BOUND)
    job.wait_for(r"pid \d+ of \d", 2)
    os.kill(workers_of(job)[1], signal.SIGSTOP)
    assert job.wait() != 0, job.text
    assert re.search(
        r"survivor 0 heard at [\d.]+: PeerTimeoutError .*worker 0 waited 30 s for worker 1: push", job.text
    )
    job.check_nothing_is_left()


def test_a_worker_that_fails_again_and_again_ends_the_job(start: Any) -> None:
    program = "import os, mx; mx.kv.create('dist_sync'); os._exit(7)"
    job = start(program, 1, "--on-loss", "restart", "--max-restarts", "1")
    assert job.wait() == 7, job.text
    assert job.text.count("has ended with exit status 7") == 2 and "was started 2 times" in job.text
    job.check_nothing_is_left()
