# SPDX-License-Identifier: Apache-2.0
"""The fake accelerator works off its streams in order and hands out tokens that tell the truth."""

import ctypes
import threading

import pytest

from mx_core.testing import FakeDevice
from mx_core.testing.device import DeviceApi
from mx_core.testing.tables import Context, Error

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def device():
    return FakeDevice(type=70, count=2)


@pytest.fixture
def table(device):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return DeviceApi.from_address(get(device.capsule, b"mx.device.v1"))


def stream(table, device_id, lane):
    handle = ctypes.c_void_p()
    assert table.stream(table.self, device_id, lane, handle, Error()) == 0
    return handle


def record(table, on):
    token = ctypes.c_void_p()
    assert table.record(table.self, on, token, Error()) == 0
    return token


def test_it_says_what_it_is(device, table):
    assert table.type == 70 and table.count(None) == 2
    assert table.head.size == ctypes.sizeof(DeviceApi)
    assert device.context(1) == (70, 1)


def test_a_token_is_reached_behind_what_was_enqueued(device, table):
    gate, order = threading.Event(), []
    device.enqueue(gate.wait)
    device.enqueue(lambda: order.append(1))
    token = record(table, stream(table, 0, 0))
    assert table.reached(None, token) == 0
    gate.set()
    assert table.wait(None, token, Error()) == 0 and order == [1] and table.reached(None, token) == 1
    table.release(None, token)
    assert device.tokens == 0


def test_a_stream_waits_for_a_token_of_another(device, table):
    gate, order = threading.Event(), []
    device.enqueue(lambda: (gate.wait(), order.append("first")))
    token = record(table, stream(table, 0, 0))
    assert table.stream_wait(None, stream(table, 1, 2), token, Error()) == 0
    device.enqueue(lambda: order.append("second"), 1, 2)
    gate.set()
    device.synchronize()
    assert order == ["first", "second"]


def test_the_next_token_tells_of_a_failure(device, table):
    device.enqueue(lambda: 1 // 0)
    on, error = stream(table, 0, 0), Error()
    assert table.wait(None, record(table, on), error) == 1 and b"division" in error.message
    assert table.wait(None, record(table, on), error) == 0


def test_it_copies(device, table):
    source, to = ctypes.create_string_buffer(b"data"), ctypes.create_string_buffer(5)
    assert table.copy(None, stream(table, 0, 1), to, Context(70, 0), source, Context(1, 0), 5, Error()) == 0
    device.synchronize()
    assert to.value == b"data"
