# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint32]

def compress(bits: int, threshold: float, gradient: Floats, residual: Floats, codes: Words) -> None: ...
def expand(bits: int, threshold: float, codes: Words, out: Floats, add: bool = False) -> None: ...

class Loops:
    """Loops over arrays by their handles, pushed to the engine. Threads: any."""

    def __init__(self, engine: object, invoke: object) -> None: ...
    def sum(self, sources: Sequence[int], targets: Sequence[int], priority: int) -> None: ...
    def compress(
        self, bits: int, threshold: float, gradient: int, residual: int, codes: int, priority: int
    ) -> None: ...
    def expand(
        self, bits: int, threshold: float, codes: Sequence[int], target: int, priority: int
    ) -> None: ...
