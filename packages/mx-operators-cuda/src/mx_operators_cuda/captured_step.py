# SPDX-License-Identifier: Apache-2.0
"""A step of a program, such as one of training, as a CUDA graph: captured once, then started as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mx_core import services
from mx_core.context import Context, gpu
from mx_core.errors import ArgumentError, MXNetError
from mx_operators_cuda import device


class CapturedStep:
    """A step on one GPU that is captured in a CUDA graph at its second call, and started as a graph from then on.

    The first call runs `forward` and `update` as they are. The second one runs them once more, and what they push to
    the GPU becomes the graph. Every later call runs `update` alone, which then enqueues nothing but tells the numbers
    of this run: learning rates, decays, counts, and small arrays that it makes from Python's numbers. `update` does not
    run where `held` knows them. The graph gets them in one table, together with new counters for random numbers. So the
    results are those of calls that are not captured, with the same random numbers.

    `forward` must do the same at every call, whatever its inputs hold. `update` must push the same operations on the
    same arrays. Neither may read values of the GPU's arrays. What they do on other devices, and everything else that
    Python does in `forward`, happens in the first two calls only. Arrays that the graph uses keep their memory as long
    as the step lives. The call that captures waits for all that is pending, and raises what of it fails.

    Threads: one at a time; meanwhile no other thread may push to the same GPU.

    Parameters
    ----------
    forward : function
        Takes arrays on the GPU, as many as the step is called with; returns an array, a tuple or list of them, or None.
    update : function without arguments, or None
        What is run before each start, such as `lambda: trainer.step(batch_size)`.
    weights : sequence of NDArray, or function that gives it
        Those whose gradients `forward` computes: a trainer that looks whether they are new finds them so. Calls are
        ordered with what reads or writes these arrays, and all others on the GPU that the graph uses. That of others
        begins when nothing uses any of them, as a rule at once; so running means and states are better named, too. A
        function is asked when the step has been captured.
    held : object, or None
        Knows the numbers of `update` without running it, as `mx_ndarray.captured.Held` says.
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
        weights: Sequence[Any] | Callable[[], Sequence[Any]] = (),
        held: Any = None,
        invoke: Any,
        ctx: Context | None = None,
    ) -> None:
        self._forward, self._update, self._held, self._invoke = forward, update, held, invoke
        self._find_weights = weights if callable(weights) else lambda: weights
        self._weights: list[Any] = []
        self._context = gpu() if ctx is None else ctx
        if self._context.device_type != "gpu":
            raise ArgumentError(f"[CapturedStep] ctx: expected a GPU, got {self._context}")
        device.require(self._context)
        self._inputs: list[Any] | None = None
        self._results: Any = None
        self._ran = False
        self._graph: Any = None

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
        ArgumentError  other inputs than at the first call, or what is no NDArray
        MXNetError     the step cannot be captured, or `update` pushed other operations than those that were
        """
        graph = self._graph
        if graph is None:
            return self._without_graph(inputs)
        try:
            fits = graph.takes(inputs)
        except AttributeError:  # one is no array
            fits = False
        if not fits:
            self._check(inputs)  # returns where a shape was not known yet
        known: bytes | None = b""
        if self._update is not None:
            known = None if self._held is None else self._held.arrays()
            if known is None and self._moved():
                self._forget_graph()
                return self._without_graph(inputs)
        if known is None:
            self._begins()
        try:
            if known is None:
                self._tell_numbers()
            elif known:
                graph.tell_host_arrays(known)
            graph.start(inputs)
        except BaseException:
            graph.abandon_numbers()
            self._failed()
            raise
        return self._results

    def _forget_graph(self) -> None:
        """The next call runs as the first one."""
        self._graph, self._ran = None, False

    def _moved(self) -> bool:
        return self._held is not None and self._held.moved()

    def _begins(self) -> None:
        if self._held is not None:
            self._held.begins()

    def _failed(self) -> None:
        self._forget_graph()
        if self._update is not None and self._held is not None:
            self._held.failed()

    def _check(self, inputs: tuple[Any, ...]) -> None:
        """Refuses inputs of other shapes or types than the first ones."""
        _check_arrays(inputs)
        given, wanted = ([(x.shape, x.dtype) for x in arrays] for arrays in (inputs, self._inputs or ()))
        if given != wanted:
            raise ArgumentError(f"[CapturedStep] expected inputs {wanted}, got {given}")

    def _without_graph(self, inputs: tuple[Any, ...]) -> Any:
        """The first call, or the second one, which captures."""
        if self._inputs is None:
            _check_arrays(inputs)
            self._inputs = [x.copyto(self._context) for x in inputs]
        else:
            self._check(inputs)
            if self._ran and not self._moved():
                return self._captured(inputs)
            for x, mine in zip(inputs, self._inputs, strict=True):
                x.copyto(mine)
        self._begins()
        results = self._forward(*self._inputs)
        self._push_update()
        if self._held is not None:
            self._held.told(b"")
        self._ran = True
        return results

    def _push_update(self) -> None:
        if self._update is not None:
            self._update()

    def _captured(self, inputs: tuple[Any, ...]) -> Any:
        self._begins()
        try:
            self._capture(services.engine())
            self._graph.start(inputs)
        except BaseException:
            self._failed()
            raise
        return self._results

    def _capture(self, engine: Any) -> None:
        assert self._inputs is not None
        graph = services.storage("gpu").captured_step(self._context.device_id, self._context)
        graph.begin(engine.capsule)  # when everything that was pushed before is done
        try:
            self._results = self._forward(*self._inputs)
            engine.wait_for_all()  # until all of it is enqueued; nothing of it runs
            graph.begin_second()
            self._push_update()
            engine.wait_for_all()
            graph.end()
        except MXNetError as error:
            graph.abandon()
            raise MXNetError(
                f"[CapturedStep] the step cannot be captured: {error}; the next call runs it as it is, but where that "
                "comes again it is to be called without a captured step"
            ) from error
        except BaseException:
            graph.abandon()
            raise
        self._weights = list(self._find_weights())
        inputs = [x.handle for x in self._inputs]
        # what is pushed between starts may wait for other devices: each start is ordered with it by these arrays
        written = [y.handle for y in (*_listed(self._results), *self._weights)]
        random = services.random("gpu").capsule
        graph.bind(
            self._invoke, random, inputs=inputs, written=written, apart=[x.handle for x in self._apart()]
        )
        self._graph = graph
        self._told()

    def _apart(self) -> list[Any]:
        """What others use one by one: a store sums gradients and brings weights where the step has no update."""
        if self._update is not None:
            return []
        return [*self._weights, *(x.grad for x in self._weights if x.grad is not None)]

    def _tell_numbers(self) -> None:
        graph = self._graph
        graph.begin_numbers()  # when everything that was pushed before is done: it is no part of the update
        for weight in self._weights:
            weight._fresh_grad = True
        self._push_update()
        if graph.missing():
            graph.drain()
            if graph.missing():  # something of it failed
                services.engine().wait_for_all()
        self._told()

    def _told(self) -> None:
        if self._held is not None:
            self._held.told(self._graph.host_arrays())


def _check_arrays(inputs: tuple[Any, ...]) -> None:
    for i, given in enumerate(inputs):
        if not hasattr(given, "handle"):
            hint = "; of a batch give *batch.data, *batch.label" if hasattr(given, "data") else ""
            raise ArgumentError(
                f"[CapturedStep] input {i}: expected an NDArray, got {type(given).__name__}{hint}"
            )


def _listed(results: Any) -> list[Any]:
    if results is None:
        return []
    return list(results) if isinstance(results, (tuple, list)) else [results]
