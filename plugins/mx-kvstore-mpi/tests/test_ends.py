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


def test_waits_for_a_server_do_not_need_a_worker_that_has_ended(start: Any, tmp_path: Path) -> None:
    job = start(ASYNC, 2, "-s", "1", "--deadline", "60")
    job.wait_for("worker 1 has ended")
    launcher = job.process.pid
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    (server,) = [
        int(p) for p in children if b"mx_kvstore_mpi.server" in Path(f"/proc/{p}/cmdline").read_bytes()
    ]
    os.kill(server, signal.SIGSTOP)  # it is busy for some seconds
    (tmp_path / "program0.py.stopped").touch()
    time.sleep(3.0)
    os.kill(server, signal.SIGCONT)
    job.wait_for(r"pulled \[-0.5 -0.5 -0.5 -0.5\]")
    job.wait_for("saved")
    job.wait_for("refused PeerLostError .*worker 1 has ended its program, and this process waits: barrier")
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


@pytest.mark.parametrize("servers", ["1", pytest.param("0", marks=pytest.mark.slow)])
def test_a_worker_may_go_on_after_the_others_for_longer_than_the_deadline(start: Any, servers: str) -> None:
    job = start(EARLY, 2, "-s", servers)
    assert job.wait(60) == 0, job.text
    job.wait_for("rank 0 has evaluated")
    assert "has ended" not in job.text, job.text
