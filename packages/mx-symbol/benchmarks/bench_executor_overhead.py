# SPDX-License-Identifier: Apache-2.0
"""What a node costs in a program, beside the same operators called one by one.

A chain of additions on 16 elements, where computing costs nothing, without fusion. Prints microseconds per
node and the ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mx_ndarray import nd
from mx_symbol import sym

NODES = 200
ROUNDS = 200


def best(run: Callable[[], object]) -> float:
    """Seconds of the quickest of several rounds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Measures and prints."""
    net = sym.Variable("x")
    for _ in range(NODES):
        net = net + 1
    executor = net.simple_bind(grad_req="null", passes="none", x=(16,))
    x = nd.ones((16,))

    def symbolic() -> None:
        executor.forward()
        executor.outputs[0].wait_to_read()

    def imperative() -> None:
        y = x
        for _ in range(NODES):
            y = y + 1
        y.wait_to_read()

    program, calls = best(symbolic) / NODES, best(imperative) / NODES
    print(f"program    {program * 1e6:8.3f} us per node")
    print(f"imperative {calls * 1e6:8.3f} us per node")
    print(f"ratio      {calls / program:8.2f} (imperative / program)")


if __name__ == "__main__":
    main()
