# SPDX-License-Identifier: Apache-2.0
"""How soon the value of the first layer is back from a server while that of a large layer is under way.

Two workers push 32 MB, and a moment later, with a larger priority, 16 KB. Values travel whole, in slices of the default
size, or in those of P3. On one machine memory counts; between hosts, which are namespaces of this machine, links of
100 MB/s do.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORKERS, ROUNDS, WARM = 2, 9, 2
#: elements of the large value and of the urgent one
LARGE, URGENT = 8_000_000, 4_000
#: seconds from one push to the other
MOMENT = 0.01
#: bytes per second of a link between hosts
RATE = 100e6
#: elements of a slice
STEPS = {"whole": 1 << 30, "slices of 1000000": 1_000_000, "slices of 40000": 40_000}


def worker() -> None:
    """Each worker prints the milliseconds of each round until either value is back."""
    import mx

    store: Any = mx.kv.create("dist_sync")
    sizes = {"large": LARGE, "urgent": URGENT}
    gradients = {name: mx.nd.ones((size,)) * (store.rank + 1) for name, size in sizes.items()}
    outs = {name: mx.nd.zeros((size,)) for name, size in sizes.items()}
    for name, out in outs.items():
        store.init(name, out)
    found: dict[str, list[float]] = {"urgent": [], "large": []}
    for turn in range(WARM + ROUNDS):
        store.barrier()
        begins = {"large": time.perf_counter()}
        store.pushpull("large", gradients["large"], out=outs["large"], priority=-1)
        time.sleep(MOMENT)
        begins["urgent"] = time.perf_counter()
        store.pushpull("urgent", gradients["urgent"], out=outs["urgent"], priority=0)
        for name in found:
            outs[name].wait_to_read()
            if turn >= WARM:
                found[name].append(1e3 * (time.perf_counter() - begins[name]))
    assert all((out.asnumpy() == 3).all() for out in outs.values())
    print(json.dumps(found), flush=True)
    store.barrier()


def measure(where: str, options: Sequence[str], **variables: str) -> None:
    """Prints the records of one place."""
    from mx_core.testing.benchmark import record
    from mx_core.testing.exchange import compare, launched, slowest

    taken: dict[str, dict[str, list[float]]] = {}
    for _ in range(2):  # in turns, since others use the machine, too
        for name, step in STEPS.items():
            told = {"MXNET_KVSTORE_SLICE_THRESHOLD": str(step), **variables}
            command = [os.path.abspath(__file__), "--worker"]
            for kind, times in slowest(launched(WORKERS, ["-s", "1", *options], command, **told)).items():
                taken.setdefault(name, {}).setdefault(kind, []).extend(times)
    for kind in ("urgent", "large"):
        for name, found in taken.items():
            if name == "whole":
                record(f"{kind} value, {where}, whole", sorted(found[kind])[len(found[kind]) // 2], "ms")
            else:
                compare(f"{kind} value, {where}, {name}", found[kind], "whole", taken["whole"][kind])


def main() -> None:
    """Prints the records."""
    from clusters.hosts import Hosts, HostsError

    measure("one machine", [])
    try:
        with tempfile.TemporaryDirectory() as folder, Hosts(3, Path(folder)) as hosts:
            hosts.limit(RATE)
            measure(f"links of {RATE / 1e6:g} MB/s", hosts.options, PATH=hosts.path)
    except HostsError as error:
        print(f"hosts are left out: {error}")


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker()
    else:
        main()
