# SPDX-License-Identifier: Apache-2.0
"""One step's exchange of the 161 gradients of ResNet-50, 102 MB, between two workers on one machine.

Each key is pushed and pulled by itself. The limits run in the same rounds: a copy of as many bytes by both workers at
once, and MPI's own allreduce of one array. With servers the limit is four copies and two sums. With
MX_BENCH_MXNET_PYTHON, an interpreter that has MXNet, its parameter servers (ps-lite) do the same in the same minute.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

WORKERS = 2
ROUNDS = 9
WARM = 3
#: what is timed in each round
PARTS = ("limit", "allreduce", "store")


def shapes() -> list[tuple[int, ...]]:
    """Of the parameters of ResNet-50, from the first layer to the last."""
    found: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    width = 64
    for stage, (blocks, inner) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for block in range(blocks):
            outer = 4 * inner
            for out, kernel, source in ((inner, 1, width), (inner, 3, inner), (outer, 1, inner)):
                found += [(out, source, kernel, kernel), (out,), (out,)]
            if block == 0:
                found += [(outer, width, 1, 1), (outer,), (outer,)]
            width = outer
        assert width == 256 * 2**stage
    return [*found, (1000, 2048), (1000,)]


def mxnet(python: str) -> dict[str, float]:
    """Milliseconds of MXNet's stores: the medians that worker 0 prints."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    told = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port), "DMLC_NUM_WORKER": str(WORKERS),
            "DMLC_NUM_SERVER": "2", "DMLC_INTERFACE": "lo", "OMP_NUM_THREADS": "2"}  # fmt: skip
    roles = ["scheduler", "server", "server", *["worker"] * WORKERS]
    words = [python, os.path.abspath(__file__), "--mxnet"]
    running = [
        subprocess.Popen(
            words, env={**os.environ, **told, "DMLC_ROLE": role}, stdout=subprocess.PIPE, text=True
        )
        for role in roles
    ]
    found: dict[str, float] = {}
    try:
        for process in running[3:]:
            for line in process.communicate(timeout=300)[0].splitlines():
                if line.startswith("{"):
                    found.update(json.loads(line))
    finally:
        for process in running:
            process.kill()
            process.wait()
    return found


def in_mxnet() -> None:
    """What a process of MXNet's job does; servers and the scheduler never leave the import."""
    import mxnet as mx

    store = mx.kv.create("dist_sync")
    gradients = [mx.nd.ones(shape) for shape in shapes()]
    outs = [mx.nd.zeros(shape) for shape in shapes()]
    for key, out in enumerate(outs):
        store.init(key, out)
    taken = []
    for _ in range(WARM + ROUNDS):
        store._barrier()
        begin = time.perf_counter()
        for key, (gradient, out) in enumerate(zip(gradients, outs)):  # Python 3.8
            store.push(key, gradient, priority=-key)
            store.pull(key, out=out, priority=-key)
        mx.nd.waitall()
        taken.append(1e3 * (time.perf_counter() - begin))
    if store.rank == 0:
        print(json.dumps({"ps-lite": statistics.median(taken[WARM:])}), flush=True)
    store._barrier()


def worker(name: str) -> None:
    """Worker 0 prints the milliseconds of each round; the slower worker counts."""
    import mx

    store: Any = mx.kv.create("dist_sync")
    servers = store._world.job.servers
    outs = [mx.nd.zeros(shape) for shape in shapes()]
    gradients = [mx.nd.ones(shape) * (store.rank + 1) for shape in shapes()]
    for key, out in enumerate(outs):
        store.init(key, out)
    size = sum(out.size for out in outs)
    flat, other = np.ones(size, np.float32), np.zeros(size, np.float32)

    def limit() -> None:
        if not servers:
            np.copyto(other, flat)
            return
        for _ in range(2):  # of four copies and two sums by two processes each worker's share
            np.copyto(other, flat)
        np.add(other, flat, out=other)

    def allreduce() -> None:
        if not servers:
            store._rounds.do("allreduce", lambda comm: comm.Allreduce(flat, other))

    def exchange() -> None:
        for key, (gradient, out) in enumerate(zip(gradients, outs, strict=True)):
            store.pushpull(key, gradient, out=out, priority=-key)
        mx.nd.waitall()

    steps: dict[str, Callable[[], None]] = {"limit": limit, "allreduce": allreduce, "store": exchange}
    taken: dict[str, list[float]] = {part: [] for part in steps}
    for _ in range(WARM + ROUNDS):
        for part, step in steps.items():
            store.barrier()
            begin = time.perf_counter()
            step()
            taken[part].append(1e3 * (time.perf_counter() - begin))
    assert (outs[0].asnumpy() == 3).all()
    print(json.dumps({"case": name, **{part: times[WARM:] for part, times in taken.items()}}), flush=True)
    store.barrier()


def launched(name: str, *options: str) -> dict[str, list[float]]:
    """Milliseconds of the rounds of a job: of the slower worker."""
    words = [sys.executable, "-m", "mx_core.cli", "launch", "-n", str(WORKERS), *options]
    done = subprocess.run(
        [*words, sys.executable, os.path.abspath(__file__), "--worker", name],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.partition("] ")[2] for line in done.stdout.splitlines()]
    found = [json.loads(line) for line in lines if line.startswith("{")]
    if len(found) != WORKERS:
        raise SystemExit(f"the job failed:\n{done.stdout}{done.stderr}")
    return {part: [max(pair) for pair in zip(*(each[part] for each in found), strict=True)] for part in PARTS}


def main() -> None:
    """Prints the records."""
    from mx_core.testing.benchmark import record, spread

    python = os.environ.get("MX_BENCH_MXNET_PYTHON", "")
    theirs = mxnet(python) if python else {}
    for name, options in (("workers alone", ()), ("2 servers", ("-s", "2"))):
        taken = launched(name, *options)
        value = statistics.median(taken["store"])
        baselines = {"copy": taken["limit"], "MPI allreduce": taken["allreduce"]}
        for baseline, times in baselines.items():
            if statistics.median(times) < 1:  # it has none
                continue
            ratio = statistics.median(times) / value
            noise = (spread(times) + spread(taken["store"])) * ratio
            record(f"dist_sync, {name}", value, "ms", baseline=baseline, ratio=ratio, spread=noise)
        for baseline, time_of in theirs.items():
            record(
                f"dist_sync, {name}", value, "ms", baseline=f"MXNet 1.9.1 {baseline}", ratio=time_of / value
            )


if __name__ == "__main__":
    if "--mxnet" in sys.argv:
        in_mxnet()
    elif "--worker" in sys.argv:
        worker(sys.argv[-1])
    else:
        main()
