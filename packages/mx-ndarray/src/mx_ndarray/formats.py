# SPDX-License-Identifier: Apache-2.0
"""Array files of others: NumPy's `.npy` and `.npz`, and safetensors.

Nothing here runs code of a file, or allocates more than the file can hold.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from math import prod
from tokenize import TokenError
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from mx_core import dtypes
from mx_core.errors import ArgumentError, FileFormatError, MXNetError
from mx_core.files import CHUNK, write_pieces
from mx_ndarray import _core
from mx_ndarray.records import values_of

if TYPE_CHECKING:
    import zipfile

    from mx_ndarray.ndarray import NDArray

NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK\x03\x04"
EMPTY_ZIP_MAGIC = b"PK\x05\x06"
#: bytes; NumPy refuses longer ones
_LONGEST_HEADER = 1 << 16
#: a byte of deflated data stands for at most this many
_MOST_DEFLATED = 1033
_SAFETENSORS = {
    "F32": "float32", "F64": "float64", "F16": "float16", "BF16": "bfloat16", "U8": "uint8",
    "I32": "int32", "I8": "int8", "I64": "int64", "BOOL": "bool", "I16": "int16", "U16": "uint16",
    "U32": "uint32", "U64": "uint64",
}  # fmt: skip


class _Content(io.RawIOBase):
    """Bytes as a file that can be read, without a copy of them. Threads: one at a time."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = memoryview(data)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = max(0, min(len(buffer), len(self._data) - self._position))
        buffer[:count] = self._data[self._position : self._position + count]
        self._position += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._data)}[whence]
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._position = base + offset
        return self._position


def _fail(name: str, problem: object) -> FileFormatError:
    return FileFormatError(f"[load] {name}: {problem}")


def _array(values: np.ndarray[Any, Any], name: str) -> NDArray:
    try:
        code = dtypes.code(values.dtype)
    except MXNetError:
        raise _fail(name, f"element type {values.dtype} has no counterpart here") from None
    native = values.astype(dtypes.numpy_dtype(code), copy=False)
    return _core.from_numpy(np.ascontiguousarray(native).reshape(values.shape), code, (1, 0))


def read_npy(data: bytes | bytearray, name: str) -> NDArray:
    """The array of a `.npy` file."""
    file = io.BytesIO(memoryview(data)[:_LONGEST_HEADER])
    try:
        version = np.lib.format.read_magic(file)
        header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if header is None:
            raise ValueError(f"version {version} is not known")
        shape, by_columns, dtype = header(file)
        needed, left = prod(shape) * dtype.itemsize, len(data) - file.tell()
        if dtype.hasobject or any(d < 0 for d in shape) or needed != left:
            raise ValueError(f"expected {needed} bytes for {dtype} of shape {shape}, got {left}")
        values = np.ndarray(shape, dtype, data, file.tell(), order="F" if by_columns else "C")
    except (ValueError, EOFError, OverflowError, SyntaxError, TokenError) as error:
        raise _fail(name, f"not a valid .npy file: {error}") from None
    return _array(values, name)


def read_npz(data: bytes | bytearray, name: str) -> dict[str, NDArray]:
    """The arrays of a `.npz` file by name."""
    import zipfile  # with all that it compresses with

    found = {}
    try:
        with zipfile.ZipFile(io.BufferedReader(_Content(data), CHUNK)) as archive:
            for entry in archive.infolist():
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    # zipfile bounds what it takes for one read of these two only
                    raise _fail(name, f"{entry.filename}: expected a member stored or deflated, "
                                      f"got compression method {entry.compress_type}")  # fmt: skip
                if entry.file_size > entry.compress_size * _MOST_DEFLATED:
                    raise _fail(name, f"{entry.filename}: {entry.compress_size} bytes cannot hold "
                                      f"{entry.file_size}")  # fmt: skip
                key = entry.filename.removesuffix(".npy")
                found[key] = read_npy(_member(archive, entry), f"{name}: {key}")
    except MXNetError:
        raise
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError,
            ValueError, OSError, zlib.error) as error:  # fmt: skip
        raise _fail(name, f"not a valid .npz file: {error}") from None
    return found


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytearray:
    """A member's content; Ctrl-C interrupts it between two pieces."""
    data = bytearray()
    with archive.open(entry) as file:
        while piece := file.read(CHUNK):
            data += piece
    return data


def read_safetensors(data: bytes | bytearray, name: str) -> dict[str, NDArray]:
    """The arrays of a safetensors file by name."""
    library = _safetensors()
    try:
        entries = library.deserialize(bytes(data))
    except library.SafetensorError as error:
        raise _fail(name, f"not a valid safetensors file: {error}") from None
    found = {}
    for key, entry in entries:
        dtype = _SAFETENSORS.get(entry["dtype"])
        if dtype is None:
            raise _fail(name, f"{key}: element type {entry['dtype']} has no counterpart here")
        flat = np.frombuffer(entry["data"], dtypes.numpy_dtype(dtypes.code(dtype)))
        found[key] = _array(flat.reshape(entry["shape"]), name)
    return found


def _write_npy(file: IO[bytes], arrays: list[NDArray], names: list[str]) -> None:
    if len(arrays) != 1 or names:
        raise ArgumentError("[save] a .npy file holds one array without a name; use .npz for more")
    values = _plain(arrays[0])
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(values))
    write_pieces(file, values.reshape(-1).view(np.uint8).data)


def _write_npz(file: IO[bytes], arrays: list[NDArray], names: list[str]) -> None:
    import zipfile

    keys = names or [f"arr_{i}" for i in range(len(arrays))]
    with zipfile.ZipFile(file, "w") as archive:
        for key, array in zip(keys, arrays, strict=True):
            with archive.open(key + ".npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, _plain(array), allow_pickle=False)


def _plain(array: NDArray) -> np.ndarray[Any, Any]:
    if dtypes.name(array._dtype_code) == "bfloat16":
        raise ArgumentError("[save] NumPy's files have no bfloat16; use .params or .safetensors")
    return values_of(array)


def _write_safetensors(file: IO[bytes], arrays: list[NDArray], names: list[str]) -> None:
    if arrays and not names:
        raise ArgumentError("[save] arrays of a safetensors file have names; pass a dictionary")
    values = {key: values_of(array) for key, array in zip(names, arrays, strict=True)}
    write_pieces(file, _safetensors("safetensors.numpy").save(values))


def _safetensors(module: str = "safetensors") -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise MXNetError("[safetensors] the library is not installed: pip install safetensors") from None


#: by the ending of a file's name
WRITERS: Mapping[str, Callable[[IO[bytes], list[NDArray], list[str]], None]] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".safetensors": _write_safetensors,
}
