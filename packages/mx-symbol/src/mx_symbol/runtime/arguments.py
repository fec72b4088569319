# SPDX-License-Identifier: Apache-2.0
"""The arguments of `bind` in one form: arrays, gradients and requests by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import ArgumentError, DTypeError, ShapeError
from mx_core.kernels import TensorSpec
from mx_ndarray import NDArray

#: arrays of the arguments, their gradients, and auxiliary states, by name
Tables = tuple[dict[str, NDArray], dict[str, NDArray | None], dict[str, NDArray]]
_REQUESTS = ("write", "add", "null")
Arrays = Sequence[NDArray] | Mapping[str, NDArray]


def named_arrays(arrays: Arrays, names: list[str], what: str) -> dict[str, NDArray]:
    """Arrays by name, given in order or by name.

    Raises
    ------
    ArgumentError  one is missing, or there are too many
    TypeError  one is no NDArray
    """
    if isinstance(arrays, Mapping):
        for name in names:
            if name not in arrays:
                unknown = [f"`{key}`" for key in arrays if key not in names]
                hint = f"; of no use are {', '.join(unknown)}" if unknown else ""
                raise ArgumentError(f"key `{name}` is missing in `{what}`{hint}")
        table = {name: arrays[name] for name in names}
    else:
        if not isinstance(arrays, (list, tuple)):
            raise TypeError(
                f"[bind] {what}: expected a list or a dict of NDArrays, got {type(arrays).__name__}"
            )
        given = list(arrays)
        if len(given) != len(names):
            raise ArgumentError(
                f"Length of {what} does not match the number of arguments: expected {len(names)} "
                f"({', '.join(names)}), got {len(given)}"
            )
        table = dict(zip(names, given, strict=True))
    for name, array in table.items():
        if not isinstance(array, NDArray):
            raise TypeError(f"[bind] {what} {name}: expected an NDArray, got {type(array).__name__}")
    return table


def named_gradients(
    grads: Sequence[NDArray | None] | Mapping[str, NDArray] | None, names: list[str]
) -> dict[str, NDArray | None]:
    """Gradients by name; None where there is none.

    Raises
    ------
    ArgumentError  a list has another length than the arguments
    """
    if grads is None:
        return {}
    if isinstance(grads, Mapping):
        return {name: grads.get(name) for name in names}
    if len(grads) != len(names):
        raise ArgumentError(
            f"Length of args_grad does not match the number of arguments: expected {len(names)}, "
            f"got {len(grads)}"
        )
    return dict(zip(names, grads, strict=True))


def requests_of(grad_req: str | Sequence[str] | Mapping[str, str], names: list[str]) -> dict[str, str]:
    """Write requests by name, from one for all, a list, or some by name.

    Raises
    ------
    ArgumentError  a wrong number of them, or one that does not exist
    """
    if isinstance(grad_req, str):
        table = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, Mapping):
        table = {name: grad_req.get(name, "null") for name in names}
    else:
        if len(grad_req) != len(names):
            raise ArgumentError(f"[bind] grad_req: expected {len(names)} values, got {len(grad_req)}")
        table = dict(zip(names, grad_req, strict=True))
    for name, request in table.items():
        if request not in _REQUESTS:
            raise ArgumentError(
                f"[bind] grad_req of {name}: expected one of {', '.join(_REQUESTS)}, got {request!r}"
            )
    return table


def check_fits(what: str, array: NDArray | None, spec: TensorSpec) -> None:
    """Raises ShapeError, DTypeError or TypeError where an array is not as the graph needs it."""
    if array is None:
        return
    if not isinstance(array, NDArray):
        raise TypeError(f"[bind] {what}: expected an NDArray, got {type(array).__name__}")
    if array.shape != spec.shape:
        raise ShapeError(f"[bind] {what}: expected shape {spec.shape}, got {array.shape}")
    if dtypes.code(array.dtype) != spec.dtype:
        raise DTypeError(f"[bind] {what}: expected {dtypes.name(spec.dtype)}, got {_np_name(array)}")


def in_memory_of(array: NDArray, place: Context) -> bool:
    """Whether an array lies where a program of a device works; the host's devices are one memory."""
    there = array.context
    return there == place or (there.device_type.startswith("cpu") and place.device_type.startswith("cpu"))


def check_places(place: Context, tables: Tables) -> None:
    """Raises ArgumentError where an array lies on another device than the one that runs the whole graph."""
    named: tuple[tuple[str, Mapping[str, NDArray | None]], ...] = (
        ("args", tables[0]), ("args_grad", tables[1]), ("aux_states", tables[2]),
    )  # fmt: skip
    for what, table in named:
        for name, array in table.items():
            if isinstance(array, NDArray) and not in_memory_of(array, place):
                raise ArgumentError(
                    f"[bind] {what} {name}: expected an array on {place}, got one on {array.context}; "
                    "a graph on several devices needs group2ctx"
                )


def _np_name(array: NDArray) -> str:
    """Name of an array's element type."""
    return dtypes.name(dtypes.code(array.dtype))


def shared_gradients(tables: Tables) -> frozenset[str]:
    """Gradients that have memory in common with another array of an executor."""
    extents: list[tuple[int, int, int, str | None]] = []
    extents += ((*grad._extent, name) for name, grad in tables[1].items() if grad is not None)
    extents += ((*array._extent, None) for table in (tables[0], tables[2]) for array in table.values())
    found: set[str | None] = set()
    last: tuple[int, int, str | None] = (-1, 0, None)  # who reaches farthest in a piece of memory
    for memory, begin, end, name in sorted(extents, key=lambda extent: extent[:3]):
        if memory == last[0] and begin < min(end, last[1]):
            found |= {last[2], name}
        if memory != last[0] or end > last[1]:
            last = (memory, end, name)
    return frozenset(name for name in found if name is not None)
