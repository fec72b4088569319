# SPDX-License-Identifier: Apache-2.0
"""NDArrays among the arrays of other libraries: NumPy's universal functions, DLPack."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mx_core import dtypes, operators
from mx_core.context import cpu
from mx_core.errors import ArgumentError, ShapeError
from mx_ndarray import _core
from mx_ndarray.functions import maximum, minimum
from mx_ndarray.ndarray import NDArray, operand
from mx_ndarray.operator_functions import function
from mx_ndarray.products import matmul

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "true_divide": operator.truediv, "remainder": operator.mod,
    "power": operator.pow, "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "maximum": maximum, "minimum": minimum,
}  # fmt: skip
_UNARY = {"absolute": "abs", "conjugate": "identity"}
#: functions of NumPy that call a method with arguments which only its own arrays take
_METHODS: dict[Callable[..., Any], str] = {np.mean: "mean", np.reshape: "reshape"}
#: functions of NumPy that write an argument: their first one, and its name
_WRITTEN: dict[Callable[..., Any], str] = {
    np.copyto: "dst", np.put: "a", np.place: "arr", np.putmask: "a", np.put_along_axis: "arr",
    np.fill_diagonal: "a", np.nan_to_num: "x",
}  # fmt: skip
_DEFAULTS = {"dtype": None, "out": None, "order": "C", "copy": None}


def apply_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`np.sin(array)`, `np.ones(3) * array`: with the operator of that name, else through NumPy.

    Results of operators are NDArrays; NumPy's own results stay NumPy arrays, unless `out` is an NDArray,
    which is written to as `out[...] = result` does.

    Raises
    ------
    TypeError  `ufunc.at` of an NDArray, which would change a copy of it
    """
    if method == "__call__" and not kwargs:
        if ufunc is np.matmul:
            return matmul(*inputs)
        if ufunc.__name__ in _BINARY and len(inputs) == 2:
            return _BINARY[ufunc.__name__](*_alike(inputs))
        name = _UNARY.get(ufunc.__name__, ufunc.__name__)
        op = operators.find(name)
        if len(inputs) == 1 and op is not None and op.arguments == ("data",):
            return function(name)(inputs[0])
    if method == "at" and isinstance(inputs[0], NDArray):
        raise TypeError(f"[{ufunc.__name__}.at] cannot change an NDArray in place; assign to array[indices]")
    out = kwargs.pop("out", ())
    if any(isinstance(target, NDArray) for target in out):
        results = getattr(ufunc, method)(*inputs, **kwargs)
        for target, result in zip(out, results if ufunc.nout > 1 else (results,), strict=True):
            if target is not None:
                target[...] = result
        given = tuple(target for target in out if target is not None)
        return given if ufunc.nout > 1 else given[0]
    if out:
        kwargs["out"] = out
    return getattr(ufunc, method)(*_plain(inputs), **_plain(kwargs))


def apply_function(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`np.mean(array)`, `np.concatenate([array, ...])`: with the method it calls, else through NumPy.

    Results of methods are NDArrays; NumPy's own results stay NumPy arrays. What the function writes,
    its first argument or `out`, is written through to the NDArray.
    """
    if func in _WRITTEN and not (func is np.nan_to_num and kwargs.get("copy", True)):
        return _write_through(func, args, kwargs, _WRITTEN[func])
    if isinstance(kwargs.get("out"), NDArray) and func not in _METHODS:
        return _write_through(func, args, kwargs, "out")
    name = _METHODS.get(func)
    rest = {k: v for k, v in kwargs.items() if k not in _DEFAULTS or v != _DEFAULTS[k]}
    if name is not None and args and isinstance(args[0], NDArray) and rest.keys() <= {"axis", "keepdims"}:
        return getattr(args[0], name)(*args[1:], **rest)
    try:
        return func._implementation(*args, **kwargs)  # type: ignore[attr-defined]  # NumPy's own, which asks no array
    except ShapeError:
        raise
    except (
        TypeError,
        ValueError,
    ):  # it expects attributes of arrays, or methods, that mean something else here
        return func(*_plain(args), **_plain(kwargs))


def _write_through(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """Calls a function that writes to a copy in main memory, and copies that back."""
    target = kwargs[name] if name in kwargs else args[0]
    if not isinstance(target, NDArray):
        return func(*_plain(args), **_plain(kwargs))
    written = target.asnumpy()
    arguments = _plain({key: value for key, value in kwargs.items() if key != name})
    if name in kwargs:
        result = func(*_plain(args), **arguments, **{name: written})
    else:
        result = func(written, *_plain(args[1:]), **arguments)
    target[...] = written
    return target if result is written else result


def _plain(tree: Any) -> Any:
    """The same arguments with NumPy's arrays in place of NDArrays."""
    if isinstance(tree, NDArray):
        return tree.asnumpy()
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    return type(tree)(map(_plain, tree)) if type(tree) in (list, tuple) else tree


def _alike(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """NumPy arrays become NDArrays of the other operand's type and context."""
    like = next(x for x in inputs if isinstance(x, NDArray))
    return tuple(operand(like, x) if isinstance(x, np.ndarray) and x.ndim else _number(x) for x in inputs)


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, (np.generic, np.ndarray)) else x


_CPU, _CUDA = (1, 0), 2
#: types of DLPack whose memory the host can read: main memory, pinned memory of CUDA and ROCm, managed memory
_HOST = {1, 3, 11, 13}


def export(
    array: NDArray,
    stream: int | None,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> object:
    """What `__dlpack__` returns. Blocks until all pending reads and writes of the memory are done.

    From then on the two libraries share it: each must wait for the other before it writes.

    Parameters
    ----------
    stream : int, optional
        The consumer's stream. Any is allowed, since the values are computed already.
    max_version : tuple of int, optional
        A versioned capsule from (1, 0) on, which can say that an array is read-only.
    dl_device : tuple of int, optional
        The device for the consumer: the array's own, or main memory, (1, 0).
    copy : bool, optional
        True: a copy; False: never one; None: one where the device demands it.

    Raises
    ------
    BufferError  DLPack cannot describe the array
    """
    place = _core.dlpack_device(array)
    wanted = place if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if wanted not in (place, _CPU) or wanted[0] == 0:
        raise BufferError(
            f"[dlpack] an array on {array.context} cannot be given to DLPack device {wanted}; "
            "main memory is (1, 0)"
        )
    if stream is not None and place == _CPU == wanted and stream != -1:
        raise BufferError(f"[dlpack] main memory has no streams, got stream {stream!r}")
    moved = wanted != place
    if moved and copy is False:
        raise BufferError(
            f"[dlpack] an array on {array.context} can only be handed over as a copy in main memory"
        )
    source = array.copyto(cpu()) if moved else array.copy() if copy else array
    versioned = max_version is not None and max_version[0] >= 1
    if not source.writable and not versioned:
        raise BufferError("[dlpack] a read-only array needs a consumer of DLPack 1.0 or later")
    return _core.to_dlpack(source, True, versioned, source is not array)


def from_dlpack(dlpack: Any, copy: bool | None = None) -> NDArray:
    """An array on the memory of a DLPack capsule or of an object with `__dlpack__`.

    Parameters
    ----------
    copy : bool, optional
        True: a copy; False: never one; None: one where the memory is not row-major.

    Raises
    ------
    ArgumentError
        The capsule was consumed before, or would have to be copied and `copy` is False.
    """
    capsule = _capsule(dlpack, copy) if hasattr(dlpack, "__dlpack__") else dlpack
    taken = _core.from_dlpack(capsule)
    if isinstance(taken, NDArray):
        return taken.copy() if copy and not hasattr(dlpack, "__dlpack__") else taken
    if copy is False:
        raise ArgumentError("[from_dlpack] the memory is not row-major and copy=False forbids a copy")
    place = cpu()
    return _core.from_numpy(taken, dtypes.code(taken.dtype), (place.device_typeid, place.device_id))


def on_device(value: Any) -> bool:
    """Whether a value is another library's array on a device, which NumPy cannot read."""
    if isinstance(value, (NDArray, np.ndarray, np.generic)) or not hasattr(value, "__dlpack_device__"):
        return False
    return int(value.__dlpack_device__()[0]) not in _HOST


def taken(value: Any) -> NDArray:
    """An NDArray from itself, or on the memory of another library's array, or from a NumPy array.

    Raises
    ------
    TypeError  it is none of them
    """
    if isinstance(value, NDArray):
        return value
    if hasattr(value, "__dlpack__"):
        return from_dlpack(value)
    raise TypeError(f"[NDArray] expected an array, got {type(value).__name__}")


def cuda_array_interface(array: NDArray) -> dict[str, Any]:
    """What `__cuda_array_interface__` returns, version 3. Blocks until all reads and writes of the memory are done.

    From then on the two libraries share it: each must wait for the other before it writes.

    Raises
    ------
    AttributeError  the array is not on a GPU, or of a type without a NumPy name
    """
    if _core.dlpack_device(array)[0] != _CUDA:
        raise AttributeError(f"an array on {array.context} has no __cuda_array_interface__")
    kind = dtypes.numpy_dtype(array._dtype_code)
    if kind.kind not in "biufc":
        raise AttributeError(
            f"__cuda_array_interface__ has no {dtypes.name(array._dtype_code)}; use __dlpack__"
        )
    array.wait_to_write()
    return {
        "shape": array.shape, "typestr": kind.str, "data": (_core.address(array), not array.writable),
        "strides": None, "stream": None, "version": 3,
    }  # fmt: skip


def _capsule(producer: Any, copy: bool | None) -> Any:
    """Requests a capsule of the newest version that the producer supports."""
    device, number = producer.__dlpack_device__()
    arguments: dict[str, Any] = {}
    if int(device) == _CUDA:
        arguments["stream"] = _core.gpu_stream(int(number))
    wish = {} if copy is None else {"copy": copy}
    try:
        return producer.__dlpack__(**arguments, max_version=(1, 1), **wish)
    except TypeError:  # made before versions
        capsule = producer.__dlpack__(**arguments)
    if copy:
        return _core.from_dlpack(capsule).copy().__dlpack__()
    return capsule
