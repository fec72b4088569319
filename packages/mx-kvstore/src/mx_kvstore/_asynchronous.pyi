# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

class Pending:
    """An operation that has begun and not ended; a capsule."""

def configure(engine: object, invoke: object) -> None: ...
def push(
    function: Callable[..., object],
    name: str,
    reads: tuple[int, ...],
    writes: tuple[int, ...],
    priority: int,
) -> None: ...
def complete(pending: Pending, error: BaseException | None) -> bool: ...
