# SPDX-License-Identifier: Apache-2.0
"""Data parallelism: one executor per context, each with a slice of the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mx_core import Context
from mx_core.errors import ShapeError
from mx_io.io import DataDesc
from mx_ndarray import NDArray, nd


class ExecutorGroup:
    """Executors of one symbol on several contexts.

    Parameters
    ----------
    symbol : Symbol
    contexts : sequence of Context
        Each gets an equal slice of axis 0; the last one the rest.
    data_shapes, label_shapes : sequence of DataDesc
        Shapes of whole batches.
    grad_req : mapping of str to str
        Per argument.
    shared : ExecutorGroup, optional
        Whose arrays are used again.
    """

    def __init__(
        self,
        symbol: Any,
        contexts: Sequence[Context],
        data_shapes: Sequence[DataDesc],
        label_shapes: Sequence[DataDesc],
        grad_req: Mapping[str, str],
        shared: ExecutorGroup | None = None,
    ) -> None:
        self.contexts = list(contexts)
        self.data_shapes, self.label_shapes = list(data_shapes), list(label_shapes)
        self.batch_size = data_shapes[0].shape[0]
        if self.batch_size < len(self.contexts):
            raise ShapeError(f"[Module] a batch of {self.batch_size} for {len(self.contexts)} contexts")
        self.slices = _slices(self.batch_size, len(self.contexts))
        arguments = set(symbol.list_arguments())
        self._inputs = [d for d in (*self.data_shapes, *self.label_shapes) if d.name in arguments]
        self.execs: list[Any] = []
        for i, (context, part) in enumerate(zip(self.contexts, self.slices, strict=True)):
            shapes = {d.name: (part.stop - part.start, *d.shape[1:]) for d in self._inputs}
            types = {d.name: d.dtype for d in self._inputs}
            other = shared.execs[i] if shared is not None else None
            self.execs.append(
                symbol.simple_bind(
                    context, grad_req=dict(grad_req), type_dict=types, shared_exec=other, **shapes
                )
            )

    def load(self, data: Sequence[NDArray], label: Sequence[NDArray]) -> None:
        """Copies a batch into the executors' inputs; asynchronous."""
        arrays = dict(zip((d.name for d in self.data_shapes), data, strict=True))
        if label:
            arrays |= dict(zip((d.name for d in self.label_shapes), label, strict=True))
        for desc in self._inputs:
            if desc.name not in arrays:
                continue
            value = arrays[desc.name]
            if tuple(value.shape) != tuple(desc.shape):
                raise ShapeError(f"[Module] {desc.name!r}: bound with shape {desc.shape}, got {value.shape}")
            for executor, part in zip(self.execs, self.slices, strict=True):
                whole = len(self.execs) == 1
                (value if whole else value[part]).copyto(executor.arg_dict[desc.name])

    def forward(self, is_train: bool) -> None:
        """Runs all; asynchronous."""
        for executor in self.execs:
            executor.forward(is_train=is_train)

    def backward(self, out_grads: Sequence[NDArray] | None = None) -> None:
        """Gradients of all; asynchronous."""
        for executor, part in zip(self.execs, self.slices, strict=True):
            executor.backward(None if out_grads is None else [g[part] for g in out_grads])

    def outputs(self) -> list[NDArray]:
        """Outputs of the whole batch."""
        if len(self.execs) == 1:
            return list(self.execs[0].outputs)
        parts = zip(*(executor.outputs for executor in self.execs), strict=True)
        first = self.contexts[0]
        return [nd.concat(*(o.as_in_context(first) for o in each), dim=0) for each in parts]

    def arrays(self, names: Sequence[str], which: str) -> list[list[NDArray]]:
        """Per name, the arrays of all executors; `which` is arg_dict, grad_dict or aux_dict."""
        return [[getattr(executor, which)[name] for executor in self.execs] for name in names]

    def input_grads(self) -> list[NDArray]:
        """Gradients of the data, of the whole batch."""
        each = self.arrays([d.name for d in self.data_shapes], "grad_dict")
        first = self.contexts[0]
        return [g[0] if len(g) == 1 else nd.concat(*(x.as_in_context(first) for x in g), dim=0) for g in each]


def _slices(total: int, parts: int) -> list[slice]:
    step = total // parts
    return [slice(i * step, total if i == parts - 1 else (i + 1) * step) for i in range(parts)]
