# SPDX-License-Identifier: Apache-2.0
"""Workers that end at different times: one that has ended in good order fails nobody who does not need it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

ASYNC = """
import time
import mx

store = mx.kv.create("dist_async")
store.init("a", mx.nd.zeros((4,)))
store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
store.barrier()
if store.rank == 0:
    membership = store._world.membership
    while not membership.left:
        time.sleep(0.01)
    print("worker 1 has ended")
    while not __import__("os").path.exists(__file__ + ".stopped"):
        time.sleep(0.01)
    out = mx.nd.zeros((4,))
    store.push("a", mx.nd.ones((4,)))
    store.pull("a", out=out)
    print("pulled", out.asnumpy())
    store.save_optimizer_states(__file__ + ".states")
    print("saved")
    try:
        store.barrier()
    except mx.MXNetError as error:
        print("refused", type(error).__name__, error)
"""


@pytest.mark.long
def test_waits_for_a_server_do_not_need_a_worker_that_has_ended(start: Any, tmp_path: Path) -> None:
    job = start(ASYNC, 2, "-s", "1", "--deadline", "60")
    job.wait_for("worker 1 has ended")
    (server,) = job.servers()
    os.kill(server, signal.SIGSTOP)  # it is busy for some seconds
    (tmp_path / "program0.py.stopped").touch()
    time.sleep(3.0)
    os.kill(server, signal.SIGCONT)
    job.wait_for(r"pulled \[-0.5 -0.5 -0.5 -0.5\]")
    job.wait_for("saved")
    job.wait_for(
        r"refused PeerLostError .*worker 1 \(process \d+ on .*\) has ended with exit status 0, and worker 0 waits: barrier"
    )
    job.wait(40)


EARLY = """
import time
import mx

store = mx.kv.create("dist_sync")
store.init("a", mx.nd.zeros((2,)))
out = mx.nd.zeros((2,))
store.pushpull("a", mx.nd.ones((2,)), out=out)
assert (out.asnumpy() == 2).all()
store._world.timeout = 1.0
if store.rank == 0:
    while not store._world.membership.left:
        time.sleep(0.01)
    time.sleep(2.5)
    print("rank 0 has evaluated")
"""


@pytest.mark.long
@pytest.mark.parametrize("servers", ["1", pytest.param("0", marks=pytest.mark.slow)])
def test_a_worker_may_go_on_after_the_others_for_longer_than_the_deadline(start: Any, servers: str) -> None:
    job = start(EARLY, 2, "-s", servers)
    assert job.wait(60) == 0, job.text
    job.wait_for("rank 0 has evaluated")
    assert "has ended" not in job.text, job.text


GOES_ON = """
import time
import mx

store = mx.kv.create("dist_sync")
store.init("a", mx.nd.zeros((2,)))
out = mx.nd.zeros((2,))
print("pid of", store.rank)
end = time.monotonic() + 16
while time.monotonic() < end:
    store.pushpull("a", mx.nd.ones((2,)), out=out)
    out.wait_to_read()
    time.sleep(0.05)
    store.barrier()
    end = end if store.rank == 0 else float("inf")
    store.pushpull("a", mx.nd.full((2,), time.monotonic() < end), out=out)
    if out.asnumpy()[0] < 2:
        break
print("trained")
"""


@pytest.mark.slow
def test_a_launcher_may_be_stopped_for_a_while(start: Any) -> None:
    job = start(GOES_ON, 2)
    job.wait_for("pid of", 2)
    job.process.send_signal(signal.SIGSTOP)
    time.sleep(12.0)
    job.process.send_signal(signal.SIGCONT)
    assert job.wait(60) == 0, job.text
    job.wait_for("trained", 2)


@pytest.mark.slow
def test_a_program_that_ends_before_it_joins_is_told_at_once(start: Any) -> None:
    program = """
import os
import sys

if os.environ["MX_KV_RANK"] == "1":
    sys.exit(0)
import mx

mx.kv.create("dist_sync")
"""
    job = start(program, 2, "--deadline", "60")
    job.wait_for("PeerLostError: .* worker 1 has ended with exit status 0 before it joined the job", 1, 30.0)
    assert job.wait(40) == 1, job.text


def test_programs_without_a_store_may_end_as_they_like(start: Any) -> None:
    job = start("print('done')", 2, "-s", "1")
    assert job.wait(40) == 0, job.text
    job.wait_for("done", 2)
