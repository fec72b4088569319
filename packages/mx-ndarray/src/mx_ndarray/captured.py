# SPDX-License-Identifier: Apache-2.0
"""Steps of a program that a device takes as a whole, such as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mx_core import services
from mx_core.context import Context, gpu
from mx_core.errors import MXNetError
from mx_ndarray import _core
from mx_ndarray.ndarray import NDArray


class Held(Protocol):
    """Knows what `update` of a captured step would tell, so that it need not run. Threads: one at a time."""

    def arrays(self) -> bytes | None:
        """Asked before each start from a graph: what small arrays hold that `update` makes from Python's numbers.

        One after another in the order in which they are used; empty where all are as in the last run. None where they
        are not known, or where another number has changed: then `update` runs.
        """

    def moved(self) -> bool:
        """Whether the step would use other arrays than in the last run; asked when `arrays` has returned None.

        Then the step runs once as it is, and is captured anew in the next call. Asked before it is captured, too.
        """

    def begins(self) -> None:
        """Told before `update` runs."""

    def told(self, arrays: bytes) -> None:
        """Gets what the arrays held when `update` has run; nothing where it ran without a graph."""

    def failed(self) -> None:
        """Told when the step does not start after all: the update of the last `arrays` or `begins` does not count."""


def captured_step(
    forward: Callable[..., Any],
    update: Callable[[], Any] | None = None,
    *,
    weights: Sequence[NDArray] | Callable[[], Sequence[NDArray]] = (),
    held: Held | None = None,
    ctx: Context | None = None,
) -> Callable[..., Any]:
    """A step that is captured at its second call and started as a whole from then on; call it with its inputs.

    `Trainer.captured_step` and `Module.captured_step` make one of a step of training.

    Threads: the step belongs to one at a time.

    Parameters
    ----------
    forward : function
        Takes arrays on the device, as many as the step is called with; returns an array, a tuple or list of them, or
        None. It runs in the first two calls only, so it must do the same whatever the arrays hold.
    update : function without arguments, or None
        Runs before each start, and tells the numbers of this run: it pushes the same operations on the same arrays.
    weights : sequence of NDArray, or function that gives it
        Those whose gradients `forward` computes. Calls are ordered with what reads or writes them, and all other
        arrays on the device that the step uses; that of others begins when nothing uses any of them, so running means
        and states are better named, too. A function is asked when the step has been captured.
    held : Held, optional
        Knows the numbers of a run without `update`.
    ctx : Context
        Where the step runs; gpu(0) by default.

    Returns
    -------
    callable
        `step(*inputs)` runs the step and returns what `forward` returned: from the second call on the same arrays.

    Raises
    ------
    MXNetError  the device captures no steps, or is not there

    A call that raises counts no update; the next one runs the step as it is, and the one after it captures it anew.
    """
    context = gpu() if ctx is None else ctx
    on_host = context.device_type.startswith("cpu")
    device = None if on_host else services.device(context.device_type)
    make: Callable[..., Callable[..., Any]] | None = getattr(device, "captured_step", None)
    if make is None:
        raise MXNetError(f"[captured_step] {context} captures no steps; a GPU does")
    return make(forward, update, weights=weights, held=held, invoke=_core.invoke_capsule(), ctx=context)
