# SPDX-License-Identifier: Apache-2.0
"""`save` and `load`: lists and dictionaries of arrays in MXNet's `.params` files, and in others'.

Source: the format of MXNet's `NDArray::Save` for lists; see `records` for single arrays.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mx_core.errors import ArgumentError
from mx_core.files import atomic_write, read_bytes, write_pieces
from mx_ndarray import formats
from mx_ndarray.ndarray import NDArray
from mx_ndarray.records import Reader, read_record, record_pieces

_MAGIC = 0x112
_EXPECTED = "expected an NDArray, a list of them or a dictionary from str to NDArray"


def save(fname: str | os.PathLike[str], data: NDArray | Sequence[NDArray] | Mapping[str, NDArray]) -> None:
    """Writes arrays to a file. Blocks until they are computed.

    MXNet 1.x reads it, unless arrays are of int16, uint16, uint32, uint64 or a complex type, which it does
    not know, or without axes or elements, which it reads in `np_shape` alone.

    The file appears complete or not at all: it is written under a temporary name, flushed to disk and renamed.
    A link is followed; a device or FIFO is written through.

    Parameters
    ----------
    fname : path
        A name that ends in `.npy`, `.npz` or `.safetensors` gets that format (the last needs the
        library `safetensors`), every other one MXNet's.
    data : an array, a list, or a dictionary with string keys

    Raises
    ------
    ArgumentError, TypeError  `data` is something else, or the format cannot hold it
    MXNetError  the operation of an array failed, so that there is nothing to save
    FileError  the system refuses to write it; names the file; the old one is untouched

    Notes
    -----
    Threads: safe; of several writers to one name the last to end wins. A process that is killed meanwhile leaves a file
    `.NAME.….partial`, which the next one to write into the folder removes.
    """
    arrays, names = _listed(data)
    write = formats.WRITERS.get(Path(fname).suffix)
    with atomic_write(fname) as file:
        if write is not None:
            write(file, arrays, names)
            return
        for piece in _pieces(arrays, names):
            write_pieces(file, piece)


def _listed(data: Any) -> tuple[list[NDArray], list[str]]:
    if isinstance(data, NDArray):
        return [data], []
    if isinstance(data, Mapping):
        names, arrays = list(data), list(data.values())
        if not all(isinstance(name, str) for name in names):
            raise TypeError(f"[save] keys: {_EXPECTED}")
    elif isinstance(data, (list, tuple)):
        names, arrays = [], list(data)
    else:
        raise ArgumentError(f"[save] data: {_EXPECTED}, got {type(data).__name__}")
    if not all(isinstance(array, NDArray) for array in arrays):
        raise TypeError(f"[save] values: {_EXPECTED}")
    return arrays, names


def _pieces(arrays: Sequence[NDArray], names: Sequence[str]) -> Iterable[bytes | memoryview]:
    yield struct.pack("<QQQ", _MAGIC, 0, len(arrays))
    for array in arrays:
        yield from record_pieces(array)
    yield struct.pack("<Q", len(names))
    for name in names:
        encoded = _encoded(name)
        yield struct.pack("<Q", len(encoded)) + encoded


def _encoded(name: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"[save] key {name!r}: not text that UTF-8 can hold: {error.reason}") from None


Loaded = list[NDArray | None] | dict[str, NDArray | None]


def load(fname: str | os.PathLike[str]) -> Any:
    """Arrays of a `.params` file: a dictionary if they have names, else a list.

    Files of NumPy are known by their content: `.npz` gives a dictionary, `.npy` an array. Names
    that end in `.safetensors` give a dictionary.

    Raises
    ------
    FileError  the system refuses to read it; names the file
    FileFormatError  the file is truncated or corrupt; names file, byte, expected and got

    Notes
    -----
    Threads: safe.
    """
    path = Path(fname)
    data = read_bytes(path)
    if path.suffix == ".safetensors":
        return formats.read_safetensors(data, str(path))
    return _load(data, str(path))


def load_frombuffer(buf: bytes) -> Any:
    """The same from bytes in memory."""
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise TypeError(f"[load_frombuffer] expected bytes, got {type(buf).__name__}")
    return _load(buf if isinstance(buf, (bytes, bytearray)) else bytes(buf), "buffer")


def _load(data: bytes | bytearray, name: str) -> NDArray | Mapping[str, NDArray] | Loaded:
    if data.startswith(formats.NPY_MAGIC):
        return formats.read_npy(data, name)
    if data.startswith((formats.ZIP_MAGIC, formats.EMPTY_ZIP_MAGIC)):
        return formats.read_npz(data, name)
    return _read(Reader(data, name))


def _read(reader: Reader) -> Loaded:
    magic = reader.number("Q", "magic number")
    if magic != _MAGIC:
        reader.position = 0
        raise reader.fail(f"magic number: expected 0x{_MAGIC:x}, got 0x{magic:x}")
    reader.number("Q", "reserved")
    count = _count(reader, "number of arrays", 4)
    arrays = [read_record(reader) for _ in range(count)]
    n_names = _count(reader, "number of names", 8)
    if n_names not in (0, count):
        raise reader.fail(f"number of names: expected 0 or {count}, got {n_names}")
    names = [_name(reader) for _ in range(n_names)]
    if reader.left:
        raise reader.fail(f"expected the end of the file, got {reader.left} more bytes")
    return dict(zip(names, arrays, strict=True)) if names else arrays


def _count(reader: Reader, what: str, smallest: int) -> int:
    count = reader.number("Q", what)
    if count * smallest > reader.left:
        raise reader.fail(f"{what}: {count} do not fit into the {reader.left} bytes that follow")
    return count


def _name(reader: Reader) -> str:
    length = reader.number("Q", "length of a name")
    try:
        return str(reader.take(length, "name"), "utf-8")
    except UnicodeDecodeError as error:
        raise reader.fail(f"name: {error}") from None
