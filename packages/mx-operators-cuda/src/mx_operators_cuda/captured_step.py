# SPDX-License-Identifier: Apache-2.0
"""A step of a program, such as one of training, as a CUDA graph: captured once, then started as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mx_core import services
from mx_core.context import Context, gpu
from mx_core.errors import ArgumentError
from mx_operators_cuda import device


class CapturedStep:
    """A step on one GPU that is captured in a CUDA graph at its second call, and started as a graph from then on.

    The first call runs `forward` and `update` as they are. The second one runs them once more, and what they push to
    the GPU becomes the graph. Every later call runs `update` alone, which then enqueues nothing but tells the numbers
    of this run: learning rates, decays, counts, and small arrays that it makes from Python's numbers. The graph gets
    them in one table, together with new counters for random numbers. So the results are those of calls that are not
    captured, with the same random numbers.

    `forward` must do the same at every call, whatever its inputs hold. `update` must push the same operations on the
    same arrays. Neither may read values of the GPU's arrays. What they do on other devices, and everything else that
    Python does in `forward`, happens in the first two calls only. Arrays that the graph uses keep their memory as long
    as the step lives.

    Threads: one at a time; meanwhile no other thread may push to the same GPU.

    Parameters
    ----------
    forward : function
        Takes arrays on the GPU, as many as the step is called with; returns an array, a tuple or list of them, or None.
    update : function without arguments, or None
        What is run before each start, such as `lambda: trainer.step(batch_size)`.
    weights : sequence of NDArray
        Those whose gradients `forward` computes: a trainer that looks whether they are new finds them so.
    unchanged : function without arguments, or None
        Asked before each start: whether `update` would tell the numbers of the last run. Then it does not run.
    invoke : capsule `mx.invoke.v1`
        Whose arrays they are: `mx_ndarray.invoke_capsule()`.
    ctx : Context
        The GPU; gpu(0) by default.

    Raises
    ------
    ArgumentError  `ctx` is no GPU
    MXNetError     the GPU cannot be used
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        update: Callable[[], Any] | None = None,
        *,
        weights: Sequence[Any] = (),
        unchanged: Callable[[], bool] | None = None,
        invoke: Any,
        ctx: Context | None = None,
    ) -> None:
        self._forward, self._update, self._unchanged, self._invoke = forward, update, unchanged, invoke
        self._weights = list(weights)
        self._context = gpu() if ctx is None else ctx
        if self._context.device_type != "gpu":
            raise ArgumentError(f"[CapturedStep] ctx: expected a GPU, got {self._context}")
        device.require(self._context)
        self._inputs: list[Any] = []
        self._results: Any = None
        self._ran = False
        self._graph: Any = None
        self._reads: list[int] = []
        self._writes: list[int] = []

    @property
    def captured(self) -> bool:
        """Whether calls start a graph."""
        return self._graph is not None

    def __call__(self, *inputs: Any) -> Any:
        """Runs the step; asynchronous, but waits until the inputs are there to be copied.

        Parameters
        ----------
        inputs : NDArray
            On any device, of the shapes and types of the first call; they are copied to arrays of the step.

        Returns
        -------
        NDArray, a tuple or list of them, or None
            What `forward` returned. From the second call on these are the same arrays, which later calls overwrite.

        Raises
        ------
        ArgumentError  other inputs than at the first call
        MXNetError     the step cannot be captured, or `update` pushed other operations than those that were
        """
        self._take(inputs)
        if not self._ran:
            results = self._forward(*self._inputs)
            self._push_update()
            self._ran = True
            return results
        if self._graph is None:
            self._capture()
        else:
            self._tell_numbers()
        self._graph.start(services.engine().capsule, self._invoke, reads=self._reads, writes=self._writes)
        return self._results

    def _take(self, inputs: tuple[Any, ...]) -> None:
        if not self._ran:
            self._inputs = [x.copyto(self._context) for x in inputs]
            self._shapes, self._types = [x.shape for x in inputs], [x.dtype for x in inputs]
            return
        if [x.shape for x in inputs] != self._shapes or [x.dtype for x in inputs] != self._types:
            given, wanted = [(x.shape, x.dtype) for x in inputs], [(x.shape, x.dtype) for x in self._inputs]
            raise ArgumentError(f"[CapturedStep] expected inputs {wanted}, got {given}")
        for x, mine in zip(inputs, self._inputs, strict=True):
            x.copyto(mine)

    def _push_update(self) -> None:
        if self._update is not None:
            self._update()

    def _capture(self) -> None:
        engine = services.engine()
        engine.wait_for_all()
        graph = services.storage("gpu").captured_step(self._context.device_id, self._context)
        graph.begin()
        try:
            self._results = self._forward(*self._inputs)
            engine.wait_for_all()  # until all of it is enqueued; nothing of it runs
            graph.begin_second()
            self._push_update()
            engine.wait_for_all()
            graph.end()
        except BaseException:
            graph.abandon()
            raise
        self._graph = graph
        self._reads = [x.handle for x in self._inputs]
        self._writes = [y.handle for y in _listed(self._results) if y.handle not in self._reads]

    def _tell_numbers(self) -> None:
        graph = self._graph
        same = self._update is None or (self._unchanged is not None and self._unchanged())
        graph.begin_numbers(services.random("gpu").capsule, same)
        if same:
            return
        try:
            for weight in self._weights:
                weight._fresh_grad = True
            self._push_update()
            if graph.missing():
                services.engine().wait_for_all()
        except BaseException:
            graph.abandon_numbers()
            raise


def _listed(results: Any) -> list[Any]:
    if results is None:
        return []
    return list(results) if isinstance(results, (tuple, list)) else [results]
