# SPDX-License-Identifier: Apache-2.0
"""Running a kernel written in Python on a device: called once per operation, on a thread of the engine for Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from mx_core import services
from mx_core.context import Context
from mx_core.errors import MXNetError, ShapeError
from mx_core.operator import ReferenceContext
from mx_ndarray import _core, autograd
from mx_ndarray.exchange import taken
from mx_ndarray.invocation import make_context
from mx_ndarray.ndarray import NDArray

#: where a result goes, and whether it is added; None: nowhere
Target = tuple[NDArray, bool] | None


def run(
    kernel: Callable[..., Sequence[Any]],
    name: str,
    about: tuple[bool, tuple[float, ...], int, int],
    inputs: Sequence[NDArray],
    targets: Sequence[Target],
    place: tuple[int, int],
) -> None:
    """Calls a kernel with arrays on a device whose values are there, and stores what it returns.

    Everything that it pushed or enqueued has ended when this returns.

    Parameters
    ----------
    kernel : callable
        (ReferenceContext, inputs) -> outputs, new auxiliary states, new values of mutated inputs: arrays that are
        its own, or whole inputs; NDArrays, or arrays of other libraries with `__dlpack__`.
    about : tuple
        Whether it trains, run-time scalars, random key, random offset.
    inputs : sequence of NDArray
        On the device. They may be kept, but not changed.
    targets : sequence
        One per result.
    place : tuple
        Type and id of the device.

    Raises
    ------
    MXNetError  not one result per target; a result that is no array
    ShapeError  a result has another shape than its target
    """
    context = make_context(*place)
    with autograd.pause(train_mode=about[0]):
        with _other_libraries(context):
            results = kernel(ReferenceContext(*about), inputs)
        if len(results) != len(targets):
            raise MXNetError(f"[{name}] the kernel returned {len(results)} arrays, expected {len(targets)}")
        given = [taken(result) for result in results]
        # an input may lie where an earlier result goes
        given = [x.copy() if any(x is one for one in inputs) else x for x in given]
        for array in (*inputs, *given):
            array.wait_to_write()
        for target, result in zip(targets, given, strict=True):
            if target is not None:
                _store(name, result, *target)


def _store(name: str, result: NDArray, target: NDArray, adds: bool) -> None:
    if result.shape != target.shape:
        raise ShapeError(f"[{name}] the kernel returned shape {result.shape}, expected {target.shape}")
    values = result.as_in_context(target.context).astype(target.dtype, copy=False)
    _core.copy(target + values if adds else values, target)
    target.wait_to_write()  # afterwards its memory is not ours


def _other_libraries(context: Context) -> AbstractContextManager[None]:
    """While the block runs, libraries that enqueue work themselves use the device's stream; at its end that is done."""
    enter = getattr(services.device(context.device_type), "other_libraries", None)
    return nullcontext() if enter is None else enter(context.device_id)
