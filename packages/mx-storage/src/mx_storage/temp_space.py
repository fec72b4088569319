# SPDX-License-Identifier: Apache-2.0
"""Scratch memory that operations share: MXNet's temp-space resource, for operators written in Python.

A space has a variable of the engine. An operation that uses the space writes that variable, so two of them
never run at once and the memory needs no lock. Kernels need none of this: their scratch is stated in
their plans and comes from the pool for each run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from mx_core import services
from mx_core.context import Context, cpu
from mx_core.errors import ArgumentError
from mx_core.forks import ForkSafeLock
from mx_storage.choice import integer

_HOST = ("cpu", "cpu_pinned", "cpu_shared")

_lock = ForkSafeLock()
_spaces: dict[tuple[Context, str], TempSpace] = {}
_turn = itertools.count()


class TempSpace:
    """Memory that grows to the largest request and stays; made by `temp_space`.

    Threads: any may use one; the memory belongs to the operation that got it until that ends.

    Attributes
    ----------
    name : str
    context : Context
    variable
        What an operation that calls `get` lists among its `writes`.
    """

    def __init__(self, name: str, context: Context) -> None:
        self.name = name
        self.context = context
        self._engine: Any = services.engine()
        self.variable: Any = self._engine.new_variable()
        self._memory = memoryview(b"")

    def __repr__(self) -> str:
        return f"TempSpace({self.name!r}, {self.context}, {self.nbytes} bytes)"

    @property
    def nbytes(self) -> int:
        """What it holds now."""
        return self._memory.nbytes

    def get(self, nbytes: int) -> memoryview:
        """`nbytes` of the space, aligned to 64, contents undefined; valid until the operation ends.

        A second call in the same operation gives the same memory, or more in another place. For several
        pieces at once take spaces of several names.

        Raises
        ------
        ArgumentError
            No operation that writes `variable` is running; a negative size.
        OutOfMemoryError
            There is no more.
        """
        if nbytes < 0:
            raise ArgumentError(f"[TempSpace.get] nbytes: expected at least 0, got {nbytes}")
        if self._engine.variable_ready(self.variable, for_write=False) or self._is_reading():
            raise ArgumentError(
                f"[TempSpace.get] {self.name}: expected to be called in an operation that writes .variable"
            )
        if nbytes > self._memory.nbytes:
            self._memory = memoryview(b"")  # first: both at once may be more than there is
            manager = services.storage(self.context.device_type)
            block = manager.alloc(nbytes, self.context, f"temp space {self.name}")
            self._memory = memoryview(block)
        return self._memory[:nbytes]

    def _is_reading(self) -> bool:
        """Whether this thread's operation reads the variable, behind which a writer may wait. Another engine than
        mx-engine's may not know."""
        known: Callable[[Any], bool] | None = getattr(self._engine, "is_reading", None)
        return known is not None and known(self.variable)

    def release(self) -> None:
        """Gives the memory back after the operations pushed so far; the space stays usable."""

        def drop() -> None:
            self._memory = memoryview(b"")

        self._engine.push(drop, writes=[self.variable], name=f"release of temp space {self.name}")


def temp_space(name: str | None = None, ctx: Context | None = None) -> TempSpace:
    """The space of a name, the same for all callers; made by the first call.

    Parameters
    ----------
    name : str, optional
        Without one, one of MXNET_CPU_TEMP_COPY spaces (default 4) in turn: operations that take different
        ones run side by side.
    ctx : Context, optional
        Memory of the host; default `cpu(0)`.

    Raises
    ------
    ArgumentError
        Memory of another device.

    Examples
    --------
    >>> from mx_core import services
    >>> engine, space, sums = services.engine(), temp_space("prefix sums"), []
    >>> def work(n: int) -> None:
    ...     scratch = space.get(n)
    ...     scratch[:] = bytes(range(n))
    ...     sums.append(sum(scratch))
    >>> for n in (10, 100, 50):
    ...     engine.push(lambda n=n: work(n), writes=[space.variable])
    >>> engine.wait_for_all(), sums, space.nbytes
    (True, [45, 4950, 1225], 100)
    """
    context = ctx if ctx is not None else cpu()
    if context.device_type not in _HOST:
        raise ArgumentError(f"[temp_space] ctx: expected memory of the host, got {context}")
    if name is None:
        copies = max(1, integer("MXNET_CPU_TEMP_COPY", 4))
        name = f"#{next(_turn) % copies}"
    with _lock:
        key = (context, name)
        space = _spaces.get(key)
        if space is None or space._engine is not services.engine():
            space = _spaces[key] = TempSpace(name, context)
        return space
