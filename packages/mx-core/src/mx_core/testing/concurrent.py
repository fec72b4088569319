# SPDX-License-Identifier: Apache-2.0
"""What a check of threads needs: work large enough that it overlaps, arrays of each thread's own, a common start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import TypeVar

import numpy as np

from mx_core.errors import MXNetError
from mx_core.operator.infer import infer_shapes
from mx_core.operator.knowledge import PartialShape
from mx_core.testing.case import Case, make_case

#: about as many elements as the largest input gets: a run then takes longer than a thread needs to start one
ELEMENTS = 1 << 14

T = TypeVar("T")


def enlarged(case: Case, dtype: str) -> Iterator[Case]:
    """Applications like a case, the largest first; itself last.

    Axes longer than 1 grow by the same factor: those of all inputs, or of the first only where parameters decide
    about the others. Values are drawn from those of the case, which lie in the operator's domain; and from those
    divided by the factor, since sums that grow by it may end where a function is flat.
    """
    growing = [x for x in case.inputs if x.size > 1]
    if growing and all(x.size for x in case.inputs):
        factor = int(min((ELEMENTS / x.size) ** (1 / x.ndim) for x in growing))
        grown = [tuple(n if n == 1 else n * factor for n in x.shape) for x in case.inputs]
        for wanted in (grown, [grown[0], *[None] * (len(grown) - 1)]) if factor > 1 else ():
            try:
                larger = _drawn(case, wanted, dtype)
            except (MXNetError, AssertionError):  # inference refuses these shapes
                continue
            yield larger
            yield _times(larger, 1 / factor)
    yield case


def _drawn(case: Case, wanted: Sequence[PartialShape | None], dtype: str) -> Case:
    shapes, _ = infer_shapes(case.op, case.params, wanted)
    source = np.random.default_rng(0)
    arrays = []
    for array, shape in zip(case.inputs, shapes, strict=True):
        assert shape is not None and -1 not in shape, f"{case.describe()}: shape {shape} inferred"
        arrays.append(array.ravel()[source.integers(0, array.size, shape)])
    return make_case(case.op, case.params.attrs_all(), arrays, dtype=dtype, is_train=case.is_train)


def apart(case: Case, number: int) -> Case:
    """The case with other values of floating-point inputs, a little closer to zero for each number."""
    return _times(case, 1 - number / 32)


def _times(case: Case, factor: float) -> Case:
    inputs = [x if x.dtype.kind in "iub" else (x * factor).astype(x.dtype) for x in case.inputs]
    return replace(case, inputs=tuple(inputs))


def together(runs: Sequence[Callable[[], T]], rounds: int) -> list[list[T]]:
    """Calls functions at the same time, each in a thread of its own, a number of times; the results of each."""
    start = Barrier(len(runs))

    def work(run: Callable[[], T]) -> list[T]:
        start.wait()
        return [run() for _ in range(rounds)]

    with ThreadPoolExecutor(len(runs)) as pool:
        return list(pool.map(work, runs))
