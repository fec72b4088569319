# SPDX-License-Identifier: Apache-2.0
"""One step's exchange of the 161 gradients of ResNet-50, 102 MB, between two workers and two servers on one machine.

Each key is pushed and pulled by itself. The limit runs in the same rounds: what parameter servers cannot do without,
four copies of as many bytes and two sums, of which each worker does half while the other one does its own.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Any

from mx_core.testing.exchange import Step, compare, launched, server_limit, slowest, timed

WORKERS = SERVERS = 2


def worker() -> None:
    """Each worker prints the milliseconds of each round."""
    import mx

    store: Any = mx.kv.create("dist_sync")
    step = Step(mx, store)
    step.tell(timed(store, {"limit": server_limit(step.size), "store": step.pushpull}))


def main() -> None:
    """Prints the record."""
    if find_spec("ray") is None:
        print("Ray is not installed")
        return
    options = ["-s", str(SERVERS), "--engine", "ray"]
    taken = slowest(launched(WORKERS, options, [os.path.abspath(__file__), "--worker"]))
    compare(f"dist_sync, {SERVERS} servers on Ray", taken["store"], "copies and sums", taken["limit"])


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker()
    else:
        main()
