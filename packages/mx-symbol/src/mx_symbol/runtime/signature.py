# SPDX-License-Identifier: Apache-2.0
"""What a CachedOp has compiled for one combination of shapes, types and modes, and calls of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import MXNetError
from mx_ndarray import NDArray, autograd, nd
from mx_ndarray._core import record_custom
from mx_symbol import _core
from mx_symbol.graph import Entry
from mx_symbol.passes.bound_graph import BoundGraph
from mx_symbol.runtime.program import Compiled

#: an array that is made for each call: shape, context, type
_New = tuple[tuple[int, ...], Context, str]


class Signature:
    """A compiled program, and where its arrays come from: inputs, new ones, those that stay.

    Threads: any may call `forward`; one at a time calls `backward`.

    Parameters
    ----------
    inputs : sequence of Entry
        In the order of a call.
    head_grads, grads : sequence of Entry or None
        One per output and per input; None where there is no gradient.
    prepared : mapping of Entry to NDArray
        What nodes that run once keep.
    repeatable : bool
        Whether it computes the same when it runs again.
    is_train : bool
        How forward and backward run.
    other : callable, optional
        Compiles the same program with a backward of the other mode, where that differs.
    text : callable
        Gives the graph as JSON and the names of its inputs in the order of a call.
    """

    def __init__(
        self,
        graph: BoundGraph,
        compiled: Compiled,
        context: Context,
        inputs: Sequence[Entry],
        head_grads: Sequence[Entry | None],
        grads: Sequence[Entry | None],
        prepared: Mapping[Entry, NDArray],
        repeatable: bool,
        is_train: bool,
        other: Callable[[], Compiled] | None,
        text: Callable[[], tuple[str, list[str]]],
    ) -> None:
        self.context = context
        self.text = text
        self.grads = tuple(grads)
        self.repeatable = repeatable
        self.compiled = compiled
        self._memo = compiled.program.memo()
        self._is_train = is_train
        self._other = other
        self._back: tuple[Any, Any] | None = None
        self._calls = self._made_calls(graph, inputs, head_grads, prepared)
        #: starts the program on new outputs: (inputs, arena or None for a new one) -> (all arrays, outputs)
        self.forward = self._calls.forward

    def _made_calls(
        self,
        graph: BoundGraph,
        inputs: Sequence[Entry],
        head_grads: Sequence[Entry | None],
        prepared: Mapping[Entry, NDArray],
    ) -> _core.Calls:
        compiled, context = self.compiled, self.context
        place = {entry: i for i, entry in enumerate(compiled.entries)}

        def new(entry: Entry) -> _New:
            spec = graph.specs[entry]
            return tuple(spec.shape), context, dtypes.name(spec.dtype)

        # Forward does not touch gradients, so that arrays without memory stand for them.
        kept: list[Any] = [prepared.get(entry) for entry in compiled.entries]
        for entry in (*head_grads, *self.grads):
            if entry is not None and entry in place:
                kept[place[entry]] = nd.empty(*new(entry))
        arena = ((compiled.arena_bytes,), context, "uint8") if compiled.arena_bytes else None
        if arena is not None:
            kept.append(None)
        return _core.Calls(
            compiled.program,
            self._memo,
            nd.empty,
            kept,
            [(place[e], i) for i, e in enumerate(inputs) if e in place],
            [(place[e], i, new(e)) for i, e in enumerate(graph.heads)],
            arena,
            [(place[e], i) for i, e in enumerate(head_grads) if e is not None and e in place],
            [(place[e], i, new(e)) for i, e in enumerate(self.grads) if e is not None],
        )

    def backward(
        self,
        forward: list[NDArray],
        head_grads: Sequence[NDArray],
        targets: Sequence[NDArray | None],
    ) -> list[NDArray | None]:
        """Starts the second part on the arrays of the first; the gradients of inputs, in targets where there are."""
        if self._other is None or autograd.is_training() == self._is_train:
            return self._calls.backward(forward, head_grads, targets)
        if self._back is None:
            found = self._other().program
            self._back = found, found.memo()
        return self._calls.backward(forward, head_grads, targets, *self._back)


class RecordedCall:
    """One recorded call: its own memory from forward to backward.

    Threads: the graph that holds it may be differentiated by any; one does at a time.

    Parameters
    ----------
    lock : context manager
        Between what backward puts back and its program comes no other backward.
    second_order : callable
        Gradients that can be differentiated, from the signature, the inputs and the gradients of the outputs.
    """

    __slots__ = ("_arrays", "_inputs", "_kept", "_lock", "_second_order", "_signature", "_spent")

    def __init__(
        self,
        signature: Signature,
        args: tuple[NDArray, ...],
        lock: AbstractContextManager[object],
        second_order: Callable[[Signature, Sequence[NDArray], Sequence[NDArray]], list[NDArray | None]],
    ) -> None:
        self._signature = signature
        self._inputs = args
        self._lock = lock
        self._second_order = second_order
        self._spent = False
        self._kept: NDArray | None = None
        self._arrays: list[NDArray] = []

    def outputs(self) -> list[NDArray]:
        """Runs forward and records it."""
        self._arrays, outputs = self._signature.forward(self._inputs, None)
        # What this call keeps must not hold the node that holds the call.
        results = [each.detach() for each in outputs]
        record_custom(list(self._inputs), results, self._backward, True)
        return results

    def recorded_graph(self) -> tuple[str, list[str]]:
        """What `autograd.get_symbol` shows in the place of the call: JSON text, and names of inputs in their order."""
        return self._signature.text()

    def _backward(
        self, grads: Sequence[NDArray], targets: Sequence[NDArray | None], retained: bool
    ) -> list[NDArray | None]:
        if autograd.is_recording():  # with create_graph, as a call of the gradient graph
            return self._second_order(self._signature, self._inputs, grads)
        with self._lock:
            if self._signature.compiled.arena_bytes:
                self._renew(self._arrays[-1], retained)
            return self._signature.backward(self._arrays, grads, targets)

    def _renew(self, arena: NDArray, retained: bool) -> None:
        """Puts back what forward kept, which backward uses up; a copy of it lasts as long as the graph."""
        if self._kept is not None:
            self._kept.copyto(arena)
        elif self._spent:
            raise MXNetError(
                "[CachedOp] an earlier backward without retain_graph has failed and used up what forward kept; "
                "record the call again"
            )
        elif retained:
            self._kept = arena.copy()
        self._spent = True
