# SPDX-License-Identifier: Apache-2.0
"""Workers of several hosts, which sum in each host first. Here processes of one machine say that they are on others."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import Any

import pytest

#: sums between hosts, which here share memory, too
NEAR = {"UCX_TLS": "self,sm"}
TRANSPORTS = ("tcp", "mpi")

ON_HOSTS = """
import os
import numpy as np
import mx
from mx_kvstore_mpi import membership

of = lambda rank: rank % HOSTS  # as the launcher places them
membership.host_name = lambda: f"host {of(int(os.environ['MX_KV_RANK']))}"
store = mx.kv.create("dist_sync")
rank, workers = store.rank, store.num_workers
hosts = [[each for each in range(workers) if of(each) == host] for host in range(HOSTS)]
"""

BITS = """
types = {name: name for name in ("float32", "float16", "bfloat16", "int32", "bool")} | {"large": "float32"}
types |= {"large half": "float16", "none": "float64", "one": "float64"}
sizes = {"large": 1_300_017, "large half": 200_003, "none": 0, "one": 1}
shapes = {key: (sizes.get(key, 1000),) for key in types}

def ordered(terms, kind):
    # 16 bits are added in float32 and rounded once
    if kind == np.bool_:
        return np.logical_or.reduce(terms)
    wide = np.float32 if kind.itemsize == 2 else kind
    total = terms[0].astype(wide)
    for term in terms[1:]:
        total = total + term.astype(wide)
    return total.astype(kind)

def given(key, worker, turn):
    # as the array of a worker has it
    values = 50 * np.random.default_rng((worker, len(key), turn)).standard_normal(shapes[key])
    return mx.nd.array(values, dtype=types[key])

for key, shape in shapes.items():
    store.init(key, mx.nd.full(shape, rank + 1, dtype=types[key]))
    out = mx.nd.zeros(shape, dtype=types[key])
    store.pull(key, out=out)
    assert (out.asnumpy() == 1).all(), key
assert (store._rounds._hierarchy is not None) == BY_HOSTS
by_tcp = os.environ["MX_KVSTORE_TRANSPORT"] == "tcp"
if BY_HOSTS:
    far = store._rounds._hierarchy._far
    assert (far is not None) == (rank in [host[0] for host in hosts])
    assert far is None or (type(far).__name__ == "LinkedSums") == by_tcp
else:
    assert (store._rounds._transport is not None) == by_tcp
own = np.random.default_rng(rank)  # other keys are ready together on each worker
for turn in range(3):
    outs = {}
    for place, key in enumerate(shapes):
        values = given(key, rank, turn)
        if own.random() < 0.2:
            values.wait_to_read()
        outs[key] = [mx.nd.zeros(shapes[key], dtype=types[key]) for _ in range(1 + turn % 2)]
        store.pushpull(key, values, out=outs[key], priority=-place)
    for key, each in outs.items():
        terms = [given(key, worker, turn).asnumpy() for worker in range(workers)]
        near = [ordered([terms[worker] for worker in host], terms[0].dtype) for host in hosts]
        total = ordered(near, terms[0].dtype) if BY_HOSTS else ordered(terms, terms[0].dtype)
        for out in each:
            assert out.asnumpy().tobytes() == total.tobytes(), (turn, key, out, total)

store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
residuals = [np.zeros(5000, "float32") for _ in range(workers)]
store.init("codes", mx.nd.zeros((5000,)))
for turn in range(4):
    total = np.zeros(5000, "float32")
    for worker, residual in enumerate(residuals):
        gradient = np.random.default_rng((worker, turn)).standard_normal(5000).astype("float32")
        residual += gradient
        sent = np.where(abs(residual) >= 0.5, np.copysign(0.5, residual), 0).astype("float32")
        residual -= sent
        total += sent
        if worker == rank:
            mine = mx.nd.array(gradient)
    out = mx.nd.zeros((5000,))
    store.pushpull("codes", mine, out=out)
    assert (out.asnumpy() == total).all(), turn
store.barrier()
print("same bits", rank)
"""


def on_hosts(program: str, hosts: int, by_hosts: bool = True) -> str:
    return f"HOSTS, BY_HOSTS = {hosts}, {by_hosts}\n{ON_HOSTS}{program}"


@pytest.mark.long
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("workers", "hosts"),
    [(3, 2), pytest.param(4, 2, marks=pytest.mark.slow), pytest.param(7, 3, marks=pytest.mark.slow)],
)
def test_sums_are_those_of_the_hosts_sums_bit_by_bit(
    start: Any, workers: int, hosts: int, transport: str
) -> None:
    job = start(on_hosts(BITS, hosts), workers, MX_KVSTORE_TRANSPORT=transport, **NEAR)
    assert job.wait() == 0, job.text
    job.wait_for("same bits", workers)


@pytest.mark.slow
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("hosts", "memory"), [(2, "0"), (3, "1")])
def test_workers_without_common_memory_exchange_with_all(
    start: Any, hosts: int, memory: str, transport: str
) -> None:
    """It is switched off, or each is on a host of its own."""
    variables = {"MX_KVSTORE_SHARED_MEMORY": memory, "MX_KVSTORE_TRANSPORT": transport, **NEAR}
    job = start(on_hosts(BITS, hosts, by_hosts=False), 3, **variables)
    assert job.wait() == 0, job.text
    job.wait_for("same bits", 3)


LOOP = """
import time
value, out = mx.nd.ones((SIZE,)), mx.nd.zeros((SIZE,))
store.init("a", out)
print("pid", os.getpid(), "of", rank, flush=True)
try:
    while True:
        store.pushpull("a", value, out=out)
        assert (out.asnumpy() == workers).all(), out
except mx.MXNetError as error:
    print("ended", rank, time.time(), type(error).__name__, error, flush=True)
    raise
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("lost", "how", "size"),
    [
        (2, signal.SIGKILL, 2_000_000),
        pytest.param(0, signal.SIGKILL, 2_000_000, marks=pytest.mark.slow),
        pytest.param(1, signal.SIGKILL, 100, marks=pytest.mark.slow),
        pytest.param(0, signal.SIGKILL, 100, marks=pytest.mark.slow),
        pytest.param(2, signal.SIGSTOP, 2_000_000, marks=pytest.mark.slow),
        pytest.param(0, signal.SIGSTOP, 100, marks=pytest.mark.slow),
    ],
)
def test_a_lost_worker_is_named_on_all_hosts(start: Any, lost: int, how: int, size: int) -> None:
    """Workers 0 and 2 share a host, of which 0 is the leader; worker 1 is alone on another one."""
    job = start(on_hosts(LOOP.replace("SIZE", str(size)), 2), 3, **NEAR)
    found = dict(map(reversed, job.wait_for(r"pid (\d+) of (\d)", 3)))
    time.sleep(0.5)
    os.kill(int(found[str(lost)]), how)
    begin = time.time()
    ended = job.wait_for(r"ended (\d) (\S+) (\w+) (.*)", 2, 40.0)
    if how == signal.SIGSTOP:
        os.kill(int(found[str(lost)]), signal.SIGKILL)
    assert job.wait(40) != 0
    assert {rank for rank, *_ in ended} == set("012") - {str(lost)}, job.text
    for _, at, kind, message in ended:
        assert kind == "PeerLostError" and re.search(f"worker {lost} ", message), message
        assert float(at) - begin < 15.0, message
