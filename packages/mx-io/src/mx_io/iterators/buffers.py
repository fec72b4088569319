# SPDX-License-Identifier: Apache-2.0
"""Memory of batches, used again when a batch has no references any more."""

from __future__ import annotations

import math
import mmap
import weakref
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import OutOfMemoryError
from mx_core.forks import ForkSafeLock


class BufferPool:
    """Arrays of one shape and type whose memory is used again when the last reference to them is gone.

    Fresh pages cost about as much as filling them, so batches take turns in the same few blocks of memory. At
    most `keep` blocks are known here; further ones are the operating system's again as their arrays go.

    A finished array is noticed by the next `take`: no callback runs when it goes, so that a Ctrl-C
    never lands in one.

    Threads: safe from any thread.
    """

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike, keep: int) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self._bytes = max(1, math.prod(shape) * self.dtype.itemsize)
        #: blocks with their users, the one handed out longest ago first
        self._known: deque[tuple[weakref.ref[Any], mmap.mmap]] = deque(maxlen=keep)
        self._lock = ForkSafeLock()

    def take(self) -> np.ndarray[Any, Any]:
        """An array with arbitrary content, page-aligned.

        Raises
        ------
        OutOfMemoryError  the system refuses memory for it
        """
        with self._lock:
            block = self._unused() or self._pages()
            # An array over foreign memory: slices of it refer to it, not to the block, and keep it alive.
            owner = np.frombuffer(block, self.dtype, math.prod(self.shape))
            self._known.append((weakref.ref(owner), block))
        return owner.reshape(self.shape)

    def _pages(self) -> mmap.mmap:
        try:
            return mmap.mmap(-1, self._bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            raise OutOfMemoryError(
                f"expected {self._bytes} bytes for a batch of {self.dtype} of shape {self.shape}, got none ({error}): "
                "give a smaller batch_size or data_shape"
            ) from error

    def _unused(self) -> mmap.mmap | None:
        for place, (user, block) in enumerate(self._known):
            if user() is None:
                del self._known[place]
                return block
        return None
