# SPDX-License-Identifier: Apache-2.0
"""One array in MXNet's binary form: versions V0 to V3 are read, V2 is written.

Source: the format of MXNet's `NDArray::Save`; all integers little-endian.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from mx_core import dtypes, services
from mx_core.context import Context
from mx_core.errors import FileFormatError, MXNetError
from mx_ndarray import _core
from mx_ndarray.invocation import make_context

if TYPE_CHECKING:
    from mx_ndarray.ndarray import NDArray

V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_MAX_NDIM = 32
_STORAGE = {1: "row_sparse", 2: "csr"}


class Reader:
    """A cursor over bytes in memory, which knows where it stands when something is wrong.

    Threads: one at a time.

    Parameters
    ----------
    data : buffer
        The whole file; nothing larger is ever allocated.
    name : str
        File name, for messages.
    """

    def __init__(self, data: bytes | bytearray | memoryview, name: str) -> None:
        self.data = memoryview(data)
        self.name = name
        self.position = 0

    def fail(self, problem: str) -> FileFormatError:
        """The error for a problem at the current position."""
        return FileFormatError(
            f"[load] {self.name}: not a valid NDArray file: byte {self.position}: {problem}"
        )

    @property
    def left(self) -> int:
        """Bytes that remain."""
        return len(self.data) - self.position

    def take(self, count: int, what: str) -> memoryview:
        """The next `count` bytes."""
        if count > self.left:
            raise self.fail(f"{what}: expected {count} bytes, got {self.left}: the file is truncated")
        piece = self.data[self.position : self.position + count]
        self.position += count
        return piece

    def number(self, code: str, what: str) -> int:
        """One integer of `struct` type `code`."""
        (value,) = struct.unpack("<" + code, self.take(struct.calcsize("<" + code), what))
        return int(value)


def _shape(reader: Reader, ndim: int, code: str) -> tuple[int, ...]:
    if ndim > _MAX_NDIM:
        raise reader.fail(f"shape: expected at most {_MAX_NDIM} dimensions, got {ndim}")
    shape = tuple(reader.number(code, "dimension") for _ in range(ndim))
    for dim in shape:
        if dim < 0:
            raise reader.fail(f"shape: expected dimensions from 0, got {shape}")
    return shape


def read_record(reader: Reader) -> NDArray | None:
    """The next array; None for one that was saved without a value."""
    first = reader.number("I", "version")
    if first in (V2, V3):
        stype = reader.number("i", "storage type")
        if stype in _STORAGE:
            raise reader.fail(f"storage type: expected dense, got {_STORAGE[stype]}, which is not supported")
        if stype != 0:
            raise reader.fail(f"storage type: expected 0 (dense), got {stype}")
    if first in (V1, V2, V3):
        ndim = reader.number("i", "number of dimensions")
        if ndim < (-1 if first == V3 else 0):
            raise reader.fail(f"number of dimensions: expected at least 0, got {ndim}")
        if ndim == -1 or (ndim == 0 and first != V3):
            return None
        shape = _shape(reader, ndim, "q")
    else:
        if first > _MAX_NDIM:
            raise reader.fail(f"version: expected 0x{V2:x} or an older one, got 0x{first:x}")
        if first == 0:
            return None
        shape = _shape(reader, first, "I")
    return _read_values(reader, shape)


def _read_values(reader: Reader, shape: tuple[int, ...]) -> NDArray:
    device = reader.number("i", "device type")
    number = reader.number("i", "device id")
    if device not in (1, 2, 3, 5):
        raise reader.fail(f"device type: expected 1, 2, 3 or 5, got {device}")
    code = reader.number("i", "element type")
    if not 0 <= code < len(dtypes.NAMES):
        raise reader.fail(f"element type: expected 0 to {len(dtypes.NAMES) - 1}, got {code}")
    count = math.prod(shape)  # a Python integer: cannot overflow
    values = reader.take(count * dtypes.itemsize(code), f"values of shape {shape}")
    if math.prod(dim for dim in shape if dim) * dtypes.itemsize(code) >= 2**63:
        # There are no values, as one extent is 0; NumPy multiplies the others all the same.
        raise reader.fail(f"shape: expected extents whose product has fewer than 2**63 bytes, got {shape}")
    flat = np.frombuffer(values, dtypes.numpy_dtype(code), count)
    place = _place("gpu", number) if device == 2 else (1, 0)
    return _core.from_numpy(flat.reshape(shape), code, place)


def _place(device: str, number: int) -> tuple[int, int]:
    """Where an array that lay on a device is restored: in main memory when that device is not here."""
    here = 0 <= number < services.device_count(device)
    return (Context.devstr2type[device], number) if here else (1, 0)


def dump_record(array: NDArray) -> bytes:
    """An array as a V2 record (V3 when it has no axes or no elements)."""
    return b"".join(record_pieces(array))


def record_pieces(array: NDArray) -> tuple[bytes, memoryview]:
    """Head and values of such a record."""
    shape = array.shape
    version = V3 if not shape or 0 in shape else V2
    head = struct.pack("<IiI", version, 0, len(shape)) + struct.pack(f"<{len(shape)}q", *shape)
    # Files written on an accelerator of a plug-in are read anywhere.
    kind = array.context.device_typeid if array.context.device_typeid in (1, 2, 3, 5) else 1
    head += struct.pack("<iii", kind, array.context.device_id, array._dtype_code)
    return head, values_of(array).reshape(-1).view(np.uint8).data


def values_of(array: NDArray) -> np.ndarray[Any, Any]:
    """The values of an array that is to be stored.

    Raises
    ------
    MXNetError  they were never computed, since their operation failed
    """
    values = array.asnumpy()
    if (failure := array.error) is not None:
        raise MXNetError(
            f"[save] expected a computed array, got one whose operation failed: {failure}"
        ) from failure
    return values


def restore(data: bytes, device: str = "cpu", number: int = 0) -> Any:
    """An array from a record: how pickles are read.

    Parameters
    ----------
    device, number : the accelerator it lay on; if that is not here, main memory takes its place
    """
    reader = Reader(data, "pickle")
    array = read_record(reader)
    if array is None:
        raise reader.fail("expected an array, got one without a value")
    return array if device == "cpu" else array.as_in_context(make_context(*_place(device, number)))
