# SPDX-License-Identifier: Apache-2.0
"""Contract tests for accelerators, through their C table and their memory."""

from __future__ import annotations

import ctypes as c
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mx_core.context import Context, cpu
from mx_core.testing import tables
from mx_core.testing.device import DeviceApi
from mx_core.testing.expect import check_equal, within
from mx_core.testing.storage import Memory

SIZES = (0, 1, 13, 4096, 1_000_003)  # bytes
COMPUTE, COPY_IN, COPY_OUT = range(3)
TIMEOUT = 60.0


class Device:
    """A device's C table as Python methods; keeps the device, its memory and copied arrays alive."""

    def __init__(self, device: Any, storage: Any, context: Context, memory: Context) -> None:
        self.device = device
        self.table = tables.table(device.capsule, DeviceApi, "mx.device.v1")
        self.memory = Memory(storage, memory)
        self.context = tables.Context(context.device_typeid, context.device_id)
        host = cpu()
        self.host = tables.Context(host.device_typeid, host.device_id)
        self._copied: list[Any] = []  # a device that says too soon that it is done still reads and writes it

    def try_call(self, function: Callable[..., int], *arguments: Any) -> tuple[int, str]:
        """Status and message of a function that may fail."""
        error = tables.Error()
        status = function(self.table.self, *arguments, c.byref(error))
        return status, error.message.decode(errors="replace")

    def call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls a function that must succeed."""
        status, message = self.try_call(function, *arguments)
        assert status == 0, f"status {status}: {message}"

    def stream(self, lane: int) -> c.c_void_p:
        """A stream of the tested device."""
        found = c.c_void_p()
        self.call(self.table.stream, self.context.id, lane, c.byref(found))
        return found

    def record(self, stream: c.c_void_p) -> c.c_void_p:
        """A token after what was enqueued."""
        token = c.c_void_p()
        self.call(self.table.record, stream, c.byref(token))
        return token

    def reached(self, token: c.c_void_p) -> bool:
        """Whether the work before the token is done."""
        answer = self.table.reached(self.table.self, token)
        assert answer in (0, 1), f"reached: expected 0 or 1, got {answer}"
        return bool(answer)

    def release(self, token: c.c_void_p) -> None:
        """Gives a token up."""
        self.table.release(self.table.self, token)

    def finish(self, stream: c.c_void_p) -> None:
        """Waits until all of a stream is done."""
        token = self.record(stream)
        self.call(self.table.wait, token)
        assert self.reached(token), "wait returned, but the token is not reached"
        self.release(token)

    def copy_in(self, stream: c.c_void_p, block: tables.Block, source: Any) -> None:
        """Enqueues a copy from host memory."""
        self._copied.append(source)
        size = c.sizeof(source)
        self.call(self.table.copy, stream, block.data, self.context, c.addressof(source), self.host, size)

    def occupy(self, stream: c.c_void_p, block: tables.Block, source: Any) -> None:
        """Enqueues so much work that code that does not wait for the stream reads too early."""
        for _ in range(50):
            self.copy_in(stream, block, source)

    def copy_out(self, stream: c.c_void_p, target: Any, block: tables.Block) -> None:
        """Enqueues a copy to host memory."""
        self._copied.append(target)
        size = c.sizeof(target)
        self.call(self.table.copy, stream, c.addressof(target), self.host, block.data, self.context, size)


def _bytes(size: int, seed: int) -> Any:
    return (c.c_ubyte * size).from_buffer_copy(random.Random(seed).randbytes(size) or b"")


class DeviceContract:
    """Tests of a device: derive, name the class `Test…`, write `make_device` and `make_storage`.

    Attributes
    ----------
    context : Context
        The device that is tested.
    memory_context : Context or None
        What its memory is asked for as; None means `context`.
    """

    context = cpu()
    memory_context: Context | None = None

    def make_device(self) -> Any:
        """The device, an object with `.capsule` (mx.device.v1)."""
        raise NotImplementedError

    def make_storage(self) -> Any:
        """A manager of its memory, an object with `.capsule` (mx.storage.v1)."""
        raise NotImplementedError

    def _device(self) -> Device:
        memory = self.context if self.memory_context is None else self.memory_context
        return Device(self.make_device(), self.make_storage(), self.context, memory)

    def test_says_what_and_how_many_it_is(self) -> None:
        device = self._device()
        assert device.table.type == device.context.type, "the table is of another type than the context"
        count = device.table.count(device.table.self)
        assert count > device.context.id, f"device {device.context.id} of {count} is tested"

    def test_memory_is_known_or_zero(self) -> None:
        device = self._device()
        free, total = c.c_uint64(), c.c_uint64()
        device.call(device.table.memory, device.context.id, c.byref(free), c.byref(total))
        assert free.value <= total.value, f"memory: {free.value} bytes are free, of {total.value}"

    def test_a_lane_is_one_stream(self) -> None:
        device = self._device()
        for lane in (COMPUTE, COPY_IN, COPY_OUT):
            check_equal(
                f"stream of lane {lane}, asked twice", device.stream(lane).value, device.stream(lane).value
            )

    def test_a_device_that_is_not_there_is_refused(self) -> None:
        device = self._device()
        for number in (device.table.count(device.table.self), -1):
            status, message = device.try_call(device.table.stream, number, COMPUTE, c.byref(c.c_void_p()))
            assert status != 0 and message, f"device {number}: expected an error with a message"

    @within(TIMEOUT)
    def test_tokens_are_reached_in_order_and_stay_reached(self) -> None:
        device = self._device()
        stream = device.stream(COMPUTE)
        block, source = device.memory.alloc(SIZES[-1]), _bytes(SIZES[-1], 1)
        device.occupy(stream, block, source)
        tokens = [device.record(stream) for _ in range(20)]
        device.call(device.table.wait, tokens[-1])
        late = [i for i, token in enumerate(tokens) if not device.reached(token)]
        assert not late, (
            f"the wait for the last of 20 tokens returned, tokens {late} before it are not reached"
        )
        device.call(device.table.wait, tokens[0])
        for token in tokens:
            device.release(token)
        device.memory.free(block)

    @within(TIMEOUT)
    def test_a_token_may_be_released_before_it_is_reached(self) -> None:
        device = self._device()
        stream = device.stream(COPY_IN)
        block, source = device.memory.alloc(SIZES[-1]), _bytes(SIZES[-1], 1)
        for _ in range(10):
            device.copy_in(stream, block, source)
            device.release(device.record(stream))
        device.finish(stream)
        device.memory.free(block)

    @within(TIMEOUT)
    def test_bytes_go_there_are_copied_and_come_back(self) -> None:
        device = self._device()
        stream = device.stream(COMPUTE)
        for size in SIZES:
            source, found = _bytes(size, size), (c.c_ubyte * size)()
            first, second = device.memory.alloc(max(size, 1)), device.memory.alloc(max(size, 1))
            device.copy_in(stream, first, source)
            device.call(
                device.table.copy, stream, second.data, device.context, first.data, device.context, size
            )
            device.copy_out(stream, found, second)
            device.finish(stream)
            assert bytes(found) == bytes(source), f"{size} bytes came back changed"
            device.memory.free(first)
            device.memory.free(second)

    @within(TIMEOUT)
    def test_a_stream_works_in_order(self) -> None:
        device = self._device()
        stream = device.stream(COPY_IN)
        block = device.memory.alloc(SIZES[-1])
        sources = [_bytes(SIZES[-1], seed) for seed in range(8)]
        found = (c.c_ubyte * SIZES[-1])()
        for source in sources:
            device.copy_in(stream, block, source)
        device.copy_out(stream, found, block)
        device.finish(stream)
        assert bytes(found) == bytes(sources[-1]), (
            "of 8 copies to one block the last was not the last to arrive"
        )
        device.memory.free(block)

    @within(TIMEOUT)
    def test_a_stream_waits_for_another(self) -> None:
        device = self._device()
        coming, going = device.stream(COPY_IN), device.stream(COPY_OUT)
        block = device.memory.alloc(SIZES[-1])
        earlier = _bytes(SIZES[-1], 8)
        for seed in range(8):
            source, found = _bytes(SIZES[-1], seed), (c.c_ubyte * SIZES[-1])()
            device.occupy(coming, block, earlier)
            device.copy_in(coming, block, source)
            token = device.record(coming)
            device.call(device.table.stream_wait, going, token)
            device.release(token)
            device.copy_out(going, found, block)
            device.finish(going)
            assert bytes(found) == bytes(source), "the stream did not wait for the token of another one"
        device.memory.free(block)

    @within(TIMEOUT)
    def test_threads_may_call_it_at_once(self) -> None:
        device = self._device()

        def work(seed: int) -> bool:
            block = device.memory.alloc(SIZES[-2])
            good = True
            for again in range(20):
                source, found = _bytes(SIZES[-2], 100 * seed + again), (c.c_ubyte * SIZES[-2])()
                stream = device.stream(again % 3)
                device.copy_in(stream, block, source)
                device.copy_out(stream, found, block)
                device.finish(stream)
                good = good and bytes(found) == bytes(source)
            device.memory.free(block)
            return good

        with ThreadPoolExecutor(4) as pool:
            good = list(pool.map(work, range(4)))
        assert all(good), f"bytes came back changed in {good.count(False)} of 4 threads"
