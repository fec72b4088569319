# SPDX-License-Identifier: Apache-2.0
"""Sums over devices. Everything here only pushes work to the engine; nothing waits.

What lies in host memory is summed by native loops, one operation per key, which read every source once and write every
target once. Other arrays are moved by copies and summed by operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core import services
from mx_core.context import Context, cpu
from mx_kvstore import _core
from mx_kvstore.compression import Compression
from mx_ndarray import NDArray, autograd, invoke_capsule, nd
from mx_ndarray import priority as scheduled

_HOST = frozenset(Context(kind).device_typeid for kind in ("cpu", "cpu_pinned", "cpu_shared"))
#: types that native loops add
_SUMMED = frozenset(
    {"bfloat16", "float16", "float32", "float64"}
    | {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
)
_made: tuple[object, _core.Loops] | None = None


def _loops() -> _core.Loops:
    """The native loops on the engine of this process."""
    global _made
    engine = services.engine()
    made = _made
    if made is None or made[0] is not engine:
        _made = made = (engine, _core.Loops(engine.capsule, invoke_capsule()))
    return made[1]


def _handles(arrays: Sequence[NDArray]) -> list[int]:
    return [array.handle for array in arrays]


def in_host_memory(array: NDArray) -> bool:
    """Whether native loops reach the array."""
    return array.context.device_typeid in _HOST


def alike(one: NDArray, other: NDArray) -> bool:
    """Whether one loop can write both."""
    return one._dtype_code == other._dtype_code and in_host_memory(one) and in_host_memory(other)


def _native(*lists: Sequence[NDArray]) -> bool:
    """Whether the loops take these arrays, which have one shape."""
    first: Any = lists[0][0].dtype
    if first.__name__ not in _SUMMED:
        return False
    for arrays in lists:
        for array in arrays:
            if array.dtype is not first or array.context.device_typeid not in _HOST:
                return False
    return True


def sum_into(sources: Sequence[NDArray], targets: Sequence[NDArray], priority: int) -> None:
    """Overwrites every target with the sum of the sources, which may lie on several devices.

    Terms are added in their order; those of 16 bits in float32. A target may be a source. Targets may have other types.
    """
    if _native(sources, targets):
        _loops().sum(_handles(sources), _handles(targets), priority)
        return
    with autograd.pause(), scheduled(priority):
        total = _added(sources, targets[0].context)
        for target in targets:
            if target is not total:
                total.copyto(target)


def reduced(arrays: Sequence[NDArray], context: Context, priority: int) -> NDArray:
    """The sum of `arrays` on `context`; the array itself when there is one and it lies there."""
    if len(arrays) == 1 and arrays[0].context == context:
        return arrays[0]
    if len(arrays) == 1 or context.device_typeid not in _HOST or not _native(arrays):
        with autograd.pause(), scheduled(priority):
            return _added(arrays, context)
    total = nd.empty(arrays[0].shape, ctx=context, dtype=arrays[0].dtype)
    sum_into(arrays, [total], priority)
    return total


def _added(arrays: Sequence[NDArray], context: Context) -> NDArray:
    """The sum on `context` by copies and an operator; the array itself when there is one and it lies there."""
    there = [array.as_in_context(context) for array in arrays]
    return there[0] if len(there) == 1 else nd.add_n(*there)


def moved(array: NDArray, context: Context, priority: int) -> NDArray:
    """The array on a device: itself if it is there, else a copy."""
    with autograd.pause(), scheduled(priority):
        return array.as_in_context(context)


class Compressor:
    """Sums what is sent of gradients, each of which keeps a residual per key. Threads: its store holds a lock."""

    def __init__(self, compression: Compression) -> None:
        self.compression = compression
        self._residuals: dict[tuple[Any, int], NDArray] = {}

    def codes(self, key: Any, number: int, gradient: NDArray, priority: int) -> NDArray:
        """The codes of a gradient as float32 words on a host device; its residual is that of the key and the number."""
        if gradient.context.device_typeid not in _HOST:
            gradient = moved(gradient, cpu(), priority)
        where = gradient.context
        residual = self._residuals.get((key, number))
        if residual is None:
            residual = self._residuals[key, number] = nd.zeros(gradient.shape, ctx=where)
        codes = nd.empty((self.compression.words(gradient.size),), ctx=where)
        how = self.compression
        _loops().compress(how.bits, how.threshold, gradient.handle, residual.handle, codes.handle, priority)
        return codes

    def reduced(self, key: Any, arrays: Sequence[NDArray], context: Context, priority: int) -> NDArray:
        """On `context` the sum of what is sent of `arrays`."""
        sent = [self.codes(key, number, array, priority) for number, array in enumerate(arrays)]
        home = context if context.device_typeid in _HOST else cpu()
        total = nd.empty(arrays[0].shape, ctx=home)
        _loops().expand(
            self.compression.bits, self.compression.threshold, _handles(sent), total.handle, priority
        )
        return moved(total, context, priority)


class Placement:
    """Which device sums which key: that of a key's arrays which has the fewest bytes so far.

    Threads: one at a time; its store holds a lock.
    """

    def __init__(self) -> None:
        self._load: dict[Context, int] = {}

    def choose(self, arrays: list[NDArray]) -> Context:
        """A context of `arrays`; they count for it from now on."""
        contexts = dict.fromkeys(array.context for array in arrays)
        best = min(contexts, key=lambda context: self._load.get(context, 0))
        self._load[best] = self._load.get(best, 0) + arrays[0].size
        return best
