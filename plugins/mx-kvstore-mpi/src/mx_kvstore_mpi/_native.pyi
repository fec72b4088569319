# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

class Pending:
    """An operation that has begun and not ended; a capsule."""

class Signs:
    """A thread that sends signs of life; a capsule."""

def configure(engine: object, invoke: object) -> None: ...
def push(
    function: Callable[..., object],
    name: str,
    reads: tuple[int, ...],
    writes: tuple[int, ...],
    priority: int,
) -> None: ...
def complete(pending: Pending, error: BaseException | None) -> bool: ...
def signs_begin(fd: int, message: bytes, seconds: float) -> Signs: ...
def signs_send(signs: Signs, data: bytes) -> None: ...
def signs_end(signs: Signs) -> None: ...
