# SPDX-License-Identifier: Apache-2.0
"""One step's exchange of the 161 gradients of ResNet-50, 102 MB, between two workers on one machine.

Each key is pushed and pulled by itself. The limits run in the same rounds: a copy of as many bytes by both workers at
once, and MPI's own allreduce of one array. With servers the limit is four copies and two sums. With
MX_BENCH_MXNET_PYTHON, an interpreter that has MXNet, its parameter servers (ps-lite) do the same in the same minute;
with MX_BENCH_TORCH_PYTHON, one that has PyTorch, Gloo sums one array.

Overlap: a device, which takes no processor time, computes one gradient after the other, from the last layer to the
first, in as much time as the exchange takes alone. The baseline is the longer of the two.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

WORKERS = 2
ROUNDS = 9
WARM = 3
#: what is timed in each round
PARTS = ("limit", "allreduce", "store", "backward", "overlap")


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


def torch(python: str) -> dict[str, float]:
    """Milliseconds of Gloo's allreduce of one array: the median of the slower worker."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    told = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(WORKERS),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    words = [python, os.path.abspath(__file__), "--torch"]
    running = [
        subprocess.Popen(
            words, env={**os.environ, **told, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(WORKERS)
    ]
    try:
        found = [json.loads(process.communicate(timeout=300)[0])["Gloo allreduce"] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    return {"Gloo allreduce": max(found)}


def in_torch() -> None:
    """What a process of Gloo's job does."""
    import torch  # type: ignore[import-not-found, unused-ignore]
    import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    values = torch.ones(sum(int(np.prod(shape)) for shape in shapes()))
    taken = []
    for _ in range(WARM + ROUNDS):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(values)
        taken.append(1e3 * (time.perf_counter() - begin))
    print(json.dumps({"Gloo allreduce": statistics.median(taken[WARM:])}), flush=True)


class Device:
    """Something beside the processor that computes gradients one after the other, in a given time."""

    def __init__(self, gradients: list[Any]) -> None:
        from mx_kvstore.arrays import push

        self._push = push
        self._gradients = gradients
        self.seconds = 0.0

    def backward(self) -> None:
        """Begins with the last gradient; asynchronous."""
        begun: list[Any] = [None] * len(self._gradients)
        there = threading.Semaphore(0)
        for place, gradient in enumerate(self._gradients):

            def start(done: Any, values: Any, place: int = place) -> None:
                begun[place] = done
                there.release()

            self._push(start, "backward", (), (gradient,), 0)

        def compute() -> None:
            for _ in begun:
                there.acquire()
            begin, count = time.perf_counter(), len(begun)
            for turn, done in enumerate(reversed(begun)):
                left = begin + self.seconds * (turn + 1) / count - time.perf_counter()
                if left > 0:
                    time.sleep(left)
                done(None)

        threading.Thread(target=compute).start()


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

    device = Device(gradients)

    def backward() -> None:
        device.backward()
        mx.nd.waitall()

    def overlap() -> None:
        device.backward()
        exchange()

    steps: dict[str, Callable[[], None]] = {
        "limit": limit, "allreduce": allreduce, "store": exchange, "backward": backward, "overlap": overlap,
    }  # fmt: skip
    taken: dict[str, list[float]] = {part: [] for part in steps}
    for _ in range(WARM + ROUNDS):
        for part, step in steps.items():
            store.barrier()
            begin = time.perf_counter()
            step()
            taken[part].append(1e3 * (time.perf_counter() - begin))
            device.seconds = 1e-3 * statistics.median(taken["store"] or [0.0])
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
    theirs = {f"MXNet 1.9.1 {name}": time_of for name, time_of in mxnet(python).items()} if python else {}
    python = os.environ.get("MX_BENCH_TORCH_PYTHON", "")
    theirs |= torch(python) if python else {}
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
            record(f"dist_sync, {name}", value, "ms", baseline=baseline, ratio=time_of / value)
        step = statistics.median(taken["overlap"])
        longer = [max(pair) for pair in zip(taken["store"], taken["backward"], strict=True)]
        ratio = statistics.median(longer) / step
        noise = (spread(longer) + spread(taken["overlap"])) * ratio
        record(
            f"dist_sync, {name}, overlap", step, "ms",
            baseline="longer of backward and exchange", ratio=ratio, spread=noise,
        )  # fmt: skip


if __name__ == "__main__":
    if "--mxnet" in sys.argv:
        in_mxnet()
    elif "--torch" in sys.argv:
        in_torch()
    elif "--worker" in sys.argv:
        worker(sys.argv[-1])
    else:
        main()
