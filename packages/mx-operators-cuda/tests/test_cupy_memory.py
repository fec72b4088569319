# SPDX-License-Identifier: Apache-2.0
"""CuPy in the pool of mx; CuPy is a stand-in whose events end when told to."""

from __future__ import annotations

import pytest

from testkit.fake_machine import Machine

PROGRAM = """
import contextlib, sys, types
from mx_core import gpu, services
from mx_core.errors import OutOfMemoryError

events = []
class Event:
    def __init__(self, disable_timing):
        assert disable_timing
        self.done = False
    def record(self):
        events.append(self)
    def synchronize(self):
        self.done = True
class Functions:
    def __init__(self, malloc, free):
        self.malloc, self.free = malloc, free
cuda = types.SimpleNamespace(Event=Event, Device=lambda i: contextlib.nullcontext(), PythonFunctionAllocator=Functions)
sys.modules["cupy"] = types.SimpleNamespace(cuda=cuda)

from mx_operators_cuda import CupyMemory
memory, storage = CupyMemory(), services.storage("gpu")
used = lambda i=0: storage.stats(gpu(i)).bytes_in_use
a = memory.allocator(1000, 0)
b = memory.malloc(2000, 1)
assert a and used() == 1000 and used(1) == 2000
memory.free(a, 0)
assert used() == 1000, "the event is not reached"
c = memory.malloc(1000, 0)
assert c != a and used() == 2000
events[0].done = True
memory.free(c, 0)
assert used() == 1000
d = memory.malloc(255 << 20, 0)  # fits when CuPy's stream was waited for
assert d and events[1].done and used() == 255 << 20
memory.free(0, 0)
try:
    memory.malloc(255 << 20, 0)
except OutOfMemoryError as error:
    print(error)
assert memory.malloc(0, 0) == 0
"""


COLLECTED = (
    PROGRAM.split("memory, storage = ")[0]
    + """
memory = CupyMemory()
kept = [memory.malloc(1000, 0) for _ in range(3)]
class Collecting(Event):
    @property
    def done(self):
        if kept:
            memory.free(kept.pop(), 0)
        return True
    @done.setter
    def done(self, value):
        pass
cuda.Event = Collecting
memory.free(memory.malloc(2000, 0), 0)
assert not kept and services.storage("gpu").stats(gpu(0)).bytes_in_use == 0
"""
)


@pytest.mark.long
def test_the_garbage_collector_frees_while_memory_is_freed(machine: Machine) -> None:
    machine.run(COLLECTED)


@pytest.mark.long
def test_blocks_wait_for_the_stream_that_used_them(machine: Machine) -> None:
    assert "gpu(0): cannot allocate 267386880 bytes for foreign" in machine.run(PROGRAM)
