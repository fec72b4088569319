# SPDX-License-Identifier: Apache-2.0
"""Memory of batches, used again once nobody holds the batch any more."""

from __future__ import annotations

import math
import mmap
import weakref
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt


class BufferPool:
    """Arrays of one shape and type whose memory returns here when the last reference to them goes.

    Fresh pages cost about as much as filling them, so batches take turns in the same few blocks of memory. At
    most `keep` free blocks are held.

    Threads: safe from any thread.
    """

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike, keep: int) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self._bytes = max(1, math.prod(shape) * self.dtype.itemsize)
        self._free: deque[mmap.mmap] = deque(maxlen=keep)

    def take(self) -> np.ndarray[Any, Any]:
        """An array with arbitrary content, page-aligned."""
        try:
            block = self._free.pop()
        except IndexError:
            block = mmap.mmap(-1, self._bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        # An array over foreign memory: slices of it refer to it, not to the block, and keep it alive.
        owner = np.frombuffer(block, self.dtype, math.prod(self.shape))
        weakref.finalize(owner, self._free.append, block).atexit = False
        return owner.reshape(self.shape)
