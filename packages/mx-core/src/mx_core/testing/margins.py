# SPDX-License-Identifier: Apache-2.0
"""Arrays between margins that tell of reads and writes outside."""

from __future__ import annotations

import numpy as np

from mx_core.testing.case import Array

#: bytes on each side of an array
MARGIN = 1024
#: where arrays begin, in bytes: any vector of a processor can be loaded from there
ALIGNMENT = 64
#: margins of inputs are NaN in every floating-point type: who reads them shows it in results
_UNREAD = np.full(MARGIN, 0xFF, np.uint8)
#: margins of outputs differ from byte to byte, and from those of inputs
_UNWRITTEN = (np.arange(MARGIN) * 29 + 0x5A).astype(np.uint8)


class Inside:
    """A copy of an array between margins of 1,024 bytes.

    Parameters
    ----------
    array : of a shape and type that the copy gets
    is_output : margins have a pattern instead of NaN
    shifted : it begins one element behind a multiple of 64 bytes, else at one
    """

    def __init__(self, array: Array, *, is_output: bool = False, shifted: bool = False) -> None:
        shift = array.itemsize if shifted else 0
        memory = np.empty(ALIGNMENT + shift + array.nbytes + 2 * MARGIN, np.uint8)
        begin = -(memory.ctypes.data + MARGIN) % ALIGNMENT + MARGIN + shift
        end = begin + array.nbytes
        self._expected = _UNWRITTEN if is_output else _UNREAD
        self._before, self._behind = memory[begin - MARGIN : begin], memory[end : end + MARGIN]
        self._before[:] = self._behind[:] = self._expected
        self.array: Array = memory[begin:end].view(array.dtype).reshape(array.shape)
        self.array[...] = array

    def damage(self) -> str:
        """What has been written outside of the array, in words; empty where nothing has."""
        found = []
        if not np.array_equal(self._before, self._expected):
            first = int(np.argmax(self._before != self._expected))
            found.append(f"up to {in_bytes(MARGIN - first)} before its beginning")
        if not np.array_equal(self._behind, self._expected):
            last = MARGIN - int(np.argmax((self._behind != self._expected)[::-1]))
            found.append(f"up to {in_bytes(last)} behind its end")
        return " and ".join(found)


def in_bytes(n: int) -> str:
    """`1 byte` or `n bytes`."""
    return f"{n} byte" if n == 1 else f"{n} bytes"
