# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

class RecordReader:
    """Threads: any; reads at the position take turns."""

    def __init__(self, path: bytes) -> None: ...
    def read(self) -> bytes | None: ...
    def read_at(self, offset: int) -> bytes: ...
    def read_batch(self, offsets: Sequence[int]) -> list[bytes]: ...
    def offsets(self, part_index: int = 0, num_parts: int = 1) -> npt.NDArray[np.int64]: ...
    def scan(
        self, part_index: int = 0, num_parts: int = 1
    ) -> tuple[list[int], list[tuple[int, int, str]]]: ...
    def seek(self, offset: int) -> None: ...
    def tell(self) -> int: ...

class RecordWriter:
    """Threads: any; writes take turns."""

    def __init__(self, path: bytes, kept: int = 0) -> None: ...
    def write(self, payload: bytes | bytearray | memoryview) -> int: ...
    def tell(self) -> int: ...
    def written(self) -> int: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...

def read_numbers(text: bytes, out: npt.NDArray[Any]) -> int | None: ...
def resize(image: npt.NDArray[np.uint8], height: int, width: int, interp: int) -> npt.NDArray[np.uint8]: ...
def shift_hls(
    image: npt.NDArray[np.uint8], hue: float, lightness: float, saturation: float
) -> npt.NDArray[np.uint8]: ...

class AugmentOptions:
    """Fields have the names of ImageRecordIter's parameters; set with setattr.

    Threads: one sets it; then any may apply it.
    """

    channels: int
    height: int
    width: int
    min_aspect_ratio: float
    def set_mean(self, values: Sequence[float]) -> None: ...
    def set_std(self, values: Sequence[float]) -> None: ...
    def check(self) -> None: ...
    def apply(
        self,
        image: npt.NDArray[np.uint8],
        out: np.ndarray[Any, Any],
        seed: int,
        epoch: int,
        record: int,
        mean: npt.NDArray[np.float32] | None = None,
        whole: tuple[int, int] = (0, 0),
    ) -> None: ...
    def fill(
        self,
        data: Sequence[bytes | memoryview],
        out: np.ndarray[Any, Any],
        seed: int,
        epochs: Sequence[int],
        records: Sequence[int],
        mean: npt.NDArray[np.float32] | None,
        scaled: bool,
        max_pixels: int,
    ) -> list[int]: ...
    def reshape_and_colour(
        self,
        image: npt.NDArray[np.uint8],
        seed: int,
        epoch: int,
        record: int,
        whole: tuple[int, int] = (0, 0),
    ) -> npt.NDArray[np.uint8]: ...
    def least_scale(self, height: int, width: int, seed: int, epoch: int, record: int) -> float: ...
