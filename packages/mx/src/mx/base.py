# SPDX-License-Identifier: Apache-2.0
"""`mx.base`: errors, groups of types, and the conversions for C that programs take from MXNet's `base`."""

from __future__ import annotations

import ctypes
import os
import sys as _sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mx.absent import explain as _explain
from mx_core.errors import *  # noqa: F403  every error is known here, too
from mx_core.errors import MXNetError as MXNetError
from mx_symbol.symbol.arithmetic import NotImplementedForSymbol as NotImplementedForSymbol

T = TypeVar("T")

string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.int32, np.int64)

#: the type of arrays unless told otherwise
mx_real_t = np.float32
mx_int = ctypes.c_int
mx_uint = ctypes.c_uint
mx_int64 = ctypes.c_int64
mx_float = ctypes.c_float
mx_float_p = ctypes.POINTER(ctypes.c_float)


class NotSupportedForSparseNDArray(NotImplementedForSymbol):
    """A function of dense arrays was called for a sparse one; arguments as of `NotImplementedForSymbol`."""

    where = "SparseNDArray"


# ---- strings and arrays of C ----


def py_str(x: bytes | str) -> str:
    """Text from UTF-8 bytes; text as it is, since functions that get bytes from MXNet get text here."""
    return x if isinstance(x, str) else x.decode("utf-8")


def c_str(string: str) -> ctypes.c_char_p:
    """A C string of a text in UTF-8."""
    return ctypes.c_char_p(string.encode("utf-8"))


def c_str_array(strings: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    """An array of C strings."""
    return (ctypes.c_char_p * len(strings))(*[each.encode("utf-8") for each in strings])


def c_array(ctype: type[Any], values: Sequence[Any]) -> ctypes.Array[Any]:
    """A C array of a type of ctypes with some values."""
    made: ctypes.Array[Any] = (ctype * len(values))(*values)
    return made


def c_array_buf(ctype: type[Any], buf: Any) -> ctypes.Array[Any]:
    """A C array on the memory of an object with a writable buffer, such as `array.array`."""
    made: ctypes.Array[Any] = (ctype * len(buf)).from_buffer(buf)
    return made


# ---- folders ----


def data_dir_default() -> str:
    """Where MXNet keeps what it has fetched: `.mxnet` of the user."""
    return str(Path.home() / ".mxnet")


def data_dir() -> str:
    """The folder of data and models: `MXNET_HOME`, by default that of `data_dir_default`."""
    return os.environ.get("MXNET_HOME") or data_dir_default()


# ---- helpers of classes ----


class classproperty:
    """A property of a class, read from the class itself. Threads: any.

    Parameters
    ----------
    func : callable(cls)
    """

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.func(owner)


def with_metaclass(meta: type, *bases: type) -> type:
    """A base class whose subclasses have the metaclass `meta` and the bases `bases`."""

    class Temporary(type):
        def __new__(cls, name: str, _: tuple[type, ...], namespace: dict[str, Any]) -> Any:
            return meta(name, bases, namespace)

    return type.__new__(Temporary, "temporary_class", (), {})


def build_param_doc(
    arg_names: Sequence[str], arg_types: Sequence[str], arg_descs: Sequence[str], remove_dup: bool = True
) -> str:
    """The section `Parameters` of a docstring.

    Parameters
    ----------
    arg_names, arg_types, arg_descs : sequence of str
        As many of each.
    remove_dup : bool
        Whether a name that comes again is left out.
    """
    lines, seen = ["Parameters", "----------"], set()
    for name, kind, description in zip(arg_names, arg_types, arg_descs, strict=True):
        if remove_dup and name in seen:
            continue
        seen.add(name)
        lines.append(f"{name} : {kind}")
        lines += [f"    {description}"] if description else []
    return "\n".join(lines) + "\n"


def add_fileline_to_docstring(module: Any, incursive: bool = True) -> None:
    """Does nothing: MXNet adds the files of functions to their docstrings for its own documentation."""


class _NullType:
    """The type of `_Null`, which stands for an argument that is not given. Threads: any."""

    def __repr__(self) -> str:
        return "_Null"


_Null = _NullType()


def _as_list(obj: T | list[Any] | tuple[Any, ...]) -> list[Any] | tuple[Any, ...]:
    """A list or tuple as it is; anything else as a list of one."""
    return obj if isinstance(obj, (list, tuple)) else [obj]


def __getattr__(name: str) -> Any:
    if name in ("_LIB", "check_call", "c_handle_array", "ctypes2buffer", "ctypes2numpy_shared"):
        raise AttributeError(
            f"mx.base.{name} belongs to the C library of MXNet, which is not here; mx_core.services gives the C tables "
            "of engine, storage and kernels"
        )
    if name.endswith("Handle"):
        raise AttributeError(f"mx.base.{name} is a pointer of MXNet's C library, which is not here")
    raise AttributeError(f"module 'mx.base' has no attribute {name!r}")


_explain(_sys.modules[__name__], [__name__])
