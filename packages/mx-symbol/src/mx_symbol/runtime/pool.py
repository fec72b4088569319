# SPDX-License-Identifier: Apache-2.0
"""Sources of the arrays of `simple_bind`: another executor, a buffer by name, or new memory."""

from __future__ import annotations

from collections.abc import Sequence

from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import ArgumentError, DTypeError, ShapeError
from mx_core.kernels import TensorSpec
from mx_ndarray import NDArray, nd
from mx_symbol.graph import Entry, Node
from mx_symbol.passes.bound_graph import BoundGraph, bytes_of
from mx_symbol.runtime.arguments import in_memory_of
from mx_symbol.runtime.devices import Devices
from mx_symbol.runtime.executor import Executor


class Pool:
    """Where the arrays of `simple_bind` come from. Threads: belongs to the one that binds."""

    def __init__(
        self,
        ctx: Context,
        devices: Devices | None,
        shared_exec: Executor | None,
        shared_names: Sequence[str] | None,
        buffer: dict[str, NDArray] | None,
    ) -> None:
        self._ctx = ctx
        self._devices = devices
        self._shared = shared_exec
        self._names = shared_names
        self._buffer = buffer

    def _place(self, node: Node) -> Context:
        return self._ctx if self._devices is None else self._devices.of(node)

    def _new(self, spec: TensorSpec, node: Node) -> NDArray:
        return nd.zeros(spec.shape, self._place(node), dtypes.name(spec.dtype))

    def _fitting(self, array: NDArray | None, spec: TensorSpec, node: Node) -> NDArray | None:
        if (
            array is None
            or dtypes.code(array.dtype) != spec.dtype
            or not in_memory_of(array, self._place(node))
        ):
            return None
        return array if array.shape == spec.shape else None

    def _is_shared(self, name: str) -> bool:
        return self._shared is not None and (self._names is None or name in self._names)

    def argument(self, name: str, graph: BoundGraph, node: Node) -> NDArray:
        """The array of an argument."""
        spec = graph.specs[Entry(node)]
        if self._is_shared(name) and self._shared is not None:
            found = self._fitting(self._shared.arg_dict.get(name), spec, node)
            if found is not None:
                return found
            if self._names is not None:
                other = self._shared.arg_dict.get(name)
                if other is not None and not in_memory_of(other, self._place(node)):
                    raise ArgumentError(
                        f"[simple_bind] {name}: expected an array on {self._place(node)} in the shared executor, "
                        f"got one on {other.context}"
                    )
                got = None if other is None else f"{dtypes.name(other._dtype_code)}{list(other.shape)}"
                kind = DTypeError if other is not None and other.shape == spec.shape else ShapeError
                raise kind(f"[simple_bind] {name}: expected {spec} in the shared executor, got {got}")
        return self._buffered(name, name, spec, node)

    def _buffered(self, key: str, name: str, spec: TensorSpec, node: Node) -> NDArray:
        if self._buffer is None or name in (self._names or ()):
            return self._new(spec, node)
        array = self._buffer.get(key)
        if (
            array is None
            or dtypes.code(array.dtype) != spec.dtype
            or not in_memory_of(array, self._place(node))
            or bytes_of(spec) > array.size * dtypes.itemsize(spec.dtype)
        ):
            array = self._buffer[key] = self._new(spec, node)
        return view_as(array, spec.shape)

    def gradient(self, name: str, graph: BoundGraph, node: Node) -> NDArray:
        """The array of an argument's gradient."""
        spec = graph.specs[Entry(node)]
        if self._is_shared(name) and self._shared is not None:
            found = self._fitting(self._shared.grad_dict.get(name), spec, node)
            if found is not None:
                return found
        return self._buffered(f"grad of {name}", name, spec, node)

    def auxiliary(self, name: str, graph: BoundGraph, node: Node) -> NDArray:
        """The array of an auxiliary state."""
        spec = graph.specs[Entry(node)]
        if self._shared is not None:
            found = self._fitting(self._shared.aux_dict.get(name), spec, node)
            if found is not None:
                return found
        return self._new(spec, node)


def view_as(array: NDArray, shape: tuple[int, ...]) -> NDArray:
    """The first elements of an array in another shape; shares memory."""
    if array.shape == shape:
        return array
    size = 1
    for extent in shape:
        size *= extent
    flat = array.reshape((-1,))
    return (flat if size == array.size else flat[:size]).reshape(shape)
