# SPDX-License-Identifier: Apache-2.0
"""One step's exchange of the 161 gradients of ResNet-50, 102 MB, between two workers over TCP.

The limit runs in the same rounds: raw sockets of the same two processes move the same bytes in the same pattern. Each
sends the other one half of all values, and then the other half; both directions are used at once. Beside it, MPI does
the same with two messages, and its own allreduce sums one array.

The store exchanges over connections of its own. Over the loopback interface the processes share a machine, and both the
store and MPICH are told not to use its memory; MPICH by libfabric, since UCX does not use that interface. Between
hosts, which are namespaces of this machine, UCX is what it chooses by itself.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

WORKERS, PORT = 2, 7999
#: so that the store and MPICH use TCP between processes of one machine
LOOPBACK = {
    "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo", "MPIR_CVAR_NOLOCAL": "1",
    "MX_KVSTORE_SHARED_MEMORY": "0", "MX_KVSTORE_TRANSPORT": "tcp",
}  # fmt: skip
#: where worker 0 listens
ADDRESS = "MX_BENCH_ADDRESS"


def connected(store: Any) -> socket.socket:
    """A connection between the two workers."""
    address = (os.environ[ADDRESS], PORT)
    if store.rank == 0:
        with socket.create_server(address) as listener:
            store.barrier()
            sock, _ = listener.accept()
    else:
        store.barrier()
        sock = socket.create_connection(address)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def worker() -> None:
    """Each worker prints the milliseconds of each round."""
    import mx
    from mx_core.testing.exchange import Step, timed

    store: Any = mx.kv.create("dist_sync")
    step = Step(mx, store)
    size = step.size
    flat, other = np.ones(size, np.float32), np.zeros(size, np.float32)
    halves = slice(0, size // 2), slice(size // 2, size)
    sock = connected(store)

    def receive(half: slice) -> None:
        room = other[half].data.cast("B")
        while room:
            room = room[sock.recv_into(room) :]

    def sockets() -> None:
        for half in halves:
            receiving = threading.Thread(target=receive, args=(half,))
            receiving.start()
            sock.sendall(flat[half].data.cast("B"))
            receiving.join()

    def messages(comm: Any) -> None:
        peer = 1 - comm.Get_rank()
        for half in halves:
            pending = [comm.Irecv(other[half], peer), comm.Isend(flat[half], peer)]
            while not all([each.Test() for each in pending]):
                time.sleep(20e-6)

    steps = {
        "sockets": sockets,
        "MPI messages": lambda: store._rounds.do("messages", messages),
        "MPI allreduce": lambda: store._rounds.do("allreduce", lambda comm: comm.Allreduce(flat, other)),
        "store": step.pushpull,
    }
    step.tell(timed(store, steps))


def measure(where: str, address: str, options: Sequence[str], **variables: str) -> None:
    """Prints the records of one place."""
    from mx_core.testing.exchange import compare, launched, slowest

    words = [*options, "--env", f"{ADDRESS}={address}"]
    taken = slowest(launched(WORKERS, words, [os.path.abspath(__file__), "--worker"], **variables))
    times = taken.pop("store")
    for baseline, others in taken.items():
        compare(f"dist_sync over TCP, {where}", times, baseline, others)
    compare(f"MPI messages, {where}", taken["MPI messages"], "sockets", taken["sockets"])


def main() -> None:
    """Prints the records."""
    from clusters.hosts import Hosts, HostsError

    measure("loopback", "127.0.0.1", [], **LOOPBACK)
    try:
        with tempfile.TemporaryDirectory() as folder, Hosts(WORKERS, Path(folder)) as hosts:
            measure("two hosts", hosts.addresses[0], hosts.options, PATH=hosts.path)
    except HostsError as error:
        print(f"hosts are left out: {error}")


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker()
    else:
        main()
