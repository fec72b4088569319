# SPDX-License-Identifier: Apache-2.0
"""One step's exchange of the 161 gradients of ResNet-50, 102 MB, between two workers on one machine.

Each key is pushed and pulled by itself; workers alone also only sum, as trainings do that update by themselves. The
limits run in the same rounds: a copy of as many bytes by both workers at once, and MPI's own allreduce of one array.
With servers the limit is four copies and two sums. With MX_BENCH_MXNET_PYTHON, an interpreter that has MXNet, its
parameter servers (ps-lite) do the same in the same minute; with MX_BENCH_TORCH_PYTHON, one that has PyTorch, Gloo sums
one array.

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
#: where processes of other interpreters, which have no mx, find shapes and numbers of rounds
PLAN = "MX_BENCH_EXCHANGE"


def plan() -> dict[str, str]:
    """What tells them."""
    from mx_core.testing.exchange import ROUNDS, WARM, resnet50_shapes

    return {PLAN: json.dumps({"shapes": resnet50_shapes(), "warm": WARM, "rounds": ROUNDS})}


def mxnet(python: str) -> dict[str, float]:
    """Milliseconds of MXNet's stores: the medians that worker 0 prints."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    told = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port), "DMLC_NUM_WORKER": str(WORKERS),
            "DMLC_NUM_SERVER": "2", "DMLC_INTERFACE": "lo", "OMP_NUM_THREADS": "2", **plan()}  # fmt: skip
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

    told = json.loads(os.environ[PLAN])
    store = mx.kv.create("dist_sync")
    gradients = [mx.nd.ones(tuple(shape)) for shape in told["shapes"]]
    outs = [mx.nd.zeros(tuple(shape)) for shape in told["shapes"]]
    for key, out in enumerate(outs):
        store.init(key, out)
    taken = []
    for _ in range(told["warm"] + told["rounds"]):
        store._barrier()
        begin = time.perf_counter()
        for key, (gradient, out) in enumerate(zip(gradients, outs)):  # Python 3.8
            store.push(key, gradient, priority=-key)
            store.pull(key, out=out, priority=-key)
        mx.nd.waitall()
        taken.append(1e3 * (time.perf_counter() - begin))
    if store.rank == 0:
        print(json.dumps({"ps-lite": statistics.median(taken[told["warm"] :])}), flush=True)
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
        **plan(),
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

    told = json.loads(os.environ[PLAN])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    values = torch.ones(sum(int(np.prod(shape)) for shape in told["shapes"]))
    taken = []
    for _ in range(told["warm"] + told["rounds"]):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(values)
        taken.append(1e3 * (time.perf_counter() - begin))
    print(json.dumps({"Gloo allreduce": statistics.median(taken[told["warm"] :])}), flush=True)


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


def worker() -> None:
    """Each worker prints the milliseconds of each round; the slower one counts."""
    import mx
    from mx_core.testing.exchange import Step, server_limit, timed

    store: Any = mx.kv.create("dist_sync")
    servers = store._world.job.servers
    step = Step(mx, store)
    flat, other = np.ones(step.size, np.float32), np.zeros(step.size, np.float32)
    device = Device(step.gradients)
    taken: dict[str, list[float]] = {}

    def allreduce() -> None:
        store._rounds.do("allreduce", lambda comm: comm.Allreduce(flat, other))

    def backward() -> None:
        device.seconds = 1e-3 * statistics.median(taken["store"])
        device.backward()
        mx.nd.waitall()

    def overlap() -> None:
        device.backward()
        step.pushpull()

    alone: dict[str, Callable[[], object]] = {
        "copy": lambda: np.copyto(other, flat),
        "MPI allreduce": allreduce,
        "sums": step.sum,
    }
    limits = {"copies and sums": server_limit(step.size)} if servers else alone
    found = timed(store, {**limits, "store": step.pushpull, "backward": backward, "overlap": overlap}, taken)
    step.tell(found)


def main() -> None:
    """Prints the records."""
    from mx_core.testing.benchmark import record
    from mx_core.testing.exchange import compare, launched, slowest

    python = os.environ.get("MX_BENCH_MXNET_PYTHON", "")
    theirs = {f"MXNet 1.9.1 {name}": time_of for name, time_of in mxnet(python).items()} if python else {}
    python = os.environ.get("MX_BENCH_TORCH_PYTHON", "")
    theirs |= torch(python) if python else {}
    for case, options in (("workers alone", ()), ("2 servers", ("-s", "2"))):
        taken = slowest(launched(WORKERS, options, [os.path.abspath(__file__), "--worker"]))
        name, times = f"dist_sync, {case}", taken.pop("store")
        backward, overlap, sums = taken.pop("backward"), taken.pop("overlap"), taken.pop("sums", None)
        for baseline, others in taken.items():
            compare(name, times, baseline, others)
            if sums is not None:
                compare(f"{name}, sums only", sums, baseline, others)
        value = statistics.median(times)
        for baseline, time_of in theirs.items():
            record(name, value, "ms", baseline=baseline, ratio=time_of / value)
        longer = [max(pair) for pair in zip(times, backward, strict=True)]
        compare(f"{name}, overlap", overlap, "longer of backward and exchange", longer)


if __name__ == "__main__":
    if "--mxnet" in sys.argv:
        in_mxnet()
    elif "--torch" in sys.argv:
        in_torch()
    elif "--worker" in sys.argv:
        worker()
    else:
        main()
