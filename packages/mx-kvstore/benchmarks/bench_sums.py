# SPDX-License-Identifier: Apache-2.0
"""The loop of sums alone: two arrays of 25.6 million floats into one target, two, or four, on one thread.

Workers of one machine add so where arrays lie: two of them into the outputs of both, and with `pushpull` into the
values, too. The baselines run in the same rounds: NumPy, which adds into one target and copies the sum to the others,
and a plain copy of the floats.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from mx_core import dtypes
from mx_core.testing.benchmark import record, spread
from mx_kvstore.arrays import Values, sums

ELEMENTS, ROUNDS, WARM = 25_557_032, 9, 2


def array(value: float) -> Values:
    """It begins at a multiple of 64 bytes, as all arrays of stores do."""
    room = np.full(ELEMENTS + 16, value, np.float32)
    begin = -room.ctypes.data % 64 // room.itemsize
    return room[begin : begin + ELEMENTS]


def seconds(run: Callable[..., object], *arguments: object) -> float:
    begin = time.perf_counter()
    run(*arguments)
    return time.perf_counter() - begin


def numpy(terms: list[Values], targets: list[Values]) -> None:
    np.add(terms[0], terms[1], out=targets[0])
    for target in targets[1:]:
        np.copyto(target, targets[0])


def main() -> None:
    """Prints the records."""
    terms, targets = [array(1), array(2)], [array(0) for _ in range(4)]
    code = dtypes.code("float32")
    taken: dict[str, list[float]] = {}
    for _ in range(WARM + ROUNDS):
        taken.setdefault("copy", []).append(seconds(np.copyto, targets[0], terms[0]))
        for count in (1, 2, 4):
            some = targets[:count]
            taken.setdefault(f"sum {count}", []).append(seconds(sums, [code], [terms], [some]))
            taken.setdefault(f"NumPy {count}", []).append(seconds(numpy, terms, some))
    assert all((target == 3).all() for target in targets)
    kept = {name: times[WARM:] for name, times in taken.items()}
    for count in (1, 2, 4):
        times = kept[f"sum {count}"]
        for baseline in ("copy", f"NumPy {count}"):
            others = kept[baseline]
            ratio = statistics.median(others) / statistics.median(times)
            record(
                f"sum of two arrays into {count}", 1e3 * statistics.median(times), "ms",
                baseline=baseline.split()[0], ratio=ratio, spread=(spread(times) + spread(others)) * ratio,
            )  # fmt: skip


if __name__ == "__main__":
    main()
