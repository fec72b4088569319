# SPDX-License-Identifier: Apache-2.0
"""Running a kernel written in Python: called by native code, once per operation, on any thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mx_core.errors import MXNetError, ShapeError
from mx_core.operator import ReferenceContext

#: where a result goes, if anywhere: an array, or what makes one of a shape; and whether it is added
Target = tuple[Any, bool]


def _apart(pairs: list[tuple[Any, Any, bool]]) -> list[tuple[Any, Any, bool]]:
    """The pairs of target and values; values that an earlier target is written over are copies."""
    written: list[Any] = []
    result = []
    for stored, values, adds in pairs:
        # A kernel may return views of its inputs, and a target may lie where an input does.
        late = any(np.may_share_memory(values, other) for other in written)
        result.append((stored, values.copy() if late else values, adds))
        written.append(stored)
    return result


def _arrays(count: int) -> str:
    return "1 array" if count == 1 else f"{count} arrays"


def _described(results: object) -> str:
    if isinstance(results, np.ndarray):
        return f"one array of shape {results.shape}, not in a sequence"
    kind = type(results).__name__
    return f"{_arrays(len(results))} ({kind})" if isinstance(results, (list, tuple)) else kind


def run(
    kernel: Callable[..., Sequence[Any]],
    name: str,
    context: tuple[bool, tuple[float, ...], int, int],
    inputs: Sequence[Any],
    targets: Sequence[Target],
) -> None:
    """Calls a kernel and stores what it returns.

    Parameters
    ----------
    kernel : callable
        (ReferenceContext, inputs) -> outputs, new auxiliary states, new values of mutated inputs.
    context : tuple
        Whether it trains, run-time scalars, random key, random offset.
    inputs : sequence of numpy.ndarray
        Read-only views.
    targets : sequence
        One per result.

    Raises
    ------
    MXNetError  not one result per target; the message has both numbers
    ShapeError  a result has another shape than its target
    """
    results = kernel(ReferenceContext(*context), inputs)
    if not hasattr(results, "__getitem__") or len(results) != len(targets):
        raise MXNetError(
            f"[{name}] the kernel returned {_described(results)}; expected a sequence of {_arrays(len(targets))}: "
            "outputs, new auxiliary states, new values of mutated inputs"
        )
    pairs: list[tuple[Any, Any, bool]] = []
    for (target, adds), result in zip(targets, results, strict=True):
        if target is None:
            continue
        values = np.asarray(result)
        stored = target(values.shape) if callable(target) else target
        if stored.shape != values.shape:
            raise ShapeError(f"[{name}] the kernel returned shape {values.shape}, expected {stored.shape}")
        if stored.size > 0:
            pairs.append((stored, values, adds))
    for stored, values, adds in _apart(pairs):
        if adds:
            np.add(stored, values, out=stored, casting="unsafe")
        else:
            np.copyto(stored, values, casting="unsafe")
