# SPDX-License-Identifier: Apache-2.0
"""Compiling pauses the garbage collector, and leaves it as it was."""

from __future__ import annotations

import gc
import os
import threading

import pytest

from mx_symbol import sym
from mx_symbol.graph.collector import collector_paused
from testkit import interrupts


@pytest.fixture(params=[True, False], ids=["enabled", "disabled"])
def enabled(request):
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_the_collector_is_as_it_was(enabled):
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled() is enabled
    with pytest.raises(ZeroDivisionError), collector_paused():
        raise ZeroDivisionError
    assert gc.isenabled() is enabled


def test_binding_and_running_leave_it_as_it_was(enabled):
    executor = sym.tanh(sym.Variable("x")).simple_bind(x=(2,))
    executor.forward(is_train=True)
    executor.reshape(x=(3,), allow_up_sizing=True).forward()
    assert gc.isenabled() is enabled


def test_it_comes_back_when_the_last_of_several_threads_is_done():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with collector_paused():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with collector_paused():
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_child_of_a_fork_collects():
    with collector_paused():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.isenabled()


def test_ctrl_c_never_leaves_it_paused():
    prepared = "import gc; from mx_symbol.graph.collector import collector_paused"
    interrupts.check(prepared, "with collector_paused(): pass", "gc.isenabled()")
