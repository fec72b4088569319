# SPDX-License-Identifier: Apache-2.0
"""The engine as Python code sees it."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import mx_engine
from mx_core.context import cpu
from mx_core.errors import ArgumentError, DTypeError, EngineShutdownError, MXNetError

pytestmark = pytest.mark.timeout(60)


def test_writes_run_in_push_order(engine: mx_engine.Engine) -> None:
    variable, log = engine.new_variable(), []
    for i in range(500):
        engine.push(lambda i=i: log.append(i), writes=[variable])
    assert engine.wait_for_variable(variable)
    assert log == list(range(500))
    assert engine.variable_version(variable) == 500


def test_readers_run_together(engine: mx_engine.Engine) -> None:
    variable, meeting = engine.new_variable(), threading.Barrier(2, timeout=30)
    for _ in range(2):
        engine.push(meeting.wait, reads=[variable])
    engine.wait_for_variable(variable, for_write=True)
    assert engine.variable_version(variable) == 0


def test_the_exception_arrives_with_its_type_and_origin(engine: mx_engine.Engine) -> None:
    def divide() -> None:
        raise ZeroDivisionError("by nought")

    source, result = engine.new_variable(), engine.new_variable()
    engine.push(divide, writes=[source], name="division")
    engine.push(lambda: None, reads=[source], writes=[result])
    with pytest.raises(ZeroDivisionError, match="by nought") as caught:
        engine.wait_for_variable(result)
    assert "divide" in "".join(traceback.format_tb(caught.value.__traceback__))
    (note,) = caught.value.__notes__
    assert "division" in note and "test_core.py:" in note
    # Delivered once, for every variable that shares it; still known afterwards.
    assert engine.wait_for_variable(source)
    assert engine.variable_failure(source) is caught.value
    assert caught.value.__notes__ == [note]
    engine.push(lambda: None, writes=[source])
    engine.wait_for_all()
    assert engine.variable_failure(source) is None


def test_wait_for_all_raises_the_first_and_clears_all(engine: mx_engine.Engine) -> None:
    a, b = engine.new_variable(), engine.new_variable()
    engine.push(lambda: {}["first"], writes=[a])
    engine.wait_for_variable(b)
    while engine.pending:
        time.sleep(0.001)
    engine.push(lambda: {}["second"], writes=[b])
    with pytest.raises(KeyError, match="first"):
        engine.wait_for_all()
    assert engine.wait_for_all()
    assert engine.wait_for_variable(b)


def test_skipped_and_not_skipped(engine: mx_engine.Engine) -> None:
    variable, ran = engine.new_variable(), []
    engine.push(lambda: {}["lost"], writes=[variable])
    engine.push(lambda: ran.append("normal"), reads=[variable])
    engine.push(lambda: ran.append("no_skip"), reads=[variable], property="no_skip")
    engine.drain(10)  # before the failure is delivered, and with that cleared
    with pytest.raises(KeyError):
        engine.wait_for_variable(variable)
    assert ran == ["no_skip"]


@pytest.mark.parametrize(
    ("reads", "writes", "text"),
    [
        ("aa", "", "twice among the reads"),
        ("", "aa", "twice among the writes"),
        ("ba", "a", "both read and mutated"),
    ],
)
def test_a_variable_listed_twice_is_refused(
    engine: mx_engine.Engine, reads: str, writes: str, text: str
) -> None:
    variables = {"a": engine.new_variable(), "b": engine.new_variable()}
    with pytest.raises(ArgumentError, match=text):
        engine.push(
            lambda: None,
            [variables[r] for r in reads],
            [variables[w] for w in writes],
        )
    assert engine.pending == 0


def test_wrong_arguments_are_refused(engine: mx_engine.Engine, naive: mx_engine.Engine) -> None:
    variable = engine.new_variable()
    with pytest.raises(ArgumentError, match="another engine"):
        engine.push(lambda: None, [naive.new_variable()])
    with pytest.raises(TypeError, match="callable"):
        engine.push(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="property.*'quick'"):
        engine.push(lambda: None, property="quick")
    with pytest.raises(DTypeError, match=r"\[push\] reads: expected Variable, got str"):
        engine.push(lambda: None, ["no variable"])  # type: ignore[list-item]
    with pytest.raises(DTypeError, match=r"\[push\] writes: expected an iterable of Variable"):
        engine.push(lambda: None, writes=variable)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match=r"\[push\] name: expected str, got int"):
        engine.push(lambda: None, name=3)  # type: ignore[arg-type]
    for timeout in (float("inf"), 1e300, -1.0, 0):
        assert engine.wait_for_variable(variable, timeout=timeout)
        assert engine.drain(timeout)
    with pytest.raises(ArgumentError, match="got nan"):
        engine.wait_for_all(timeout=float("nan"))
    engine.delete_variable(variable)
    for use in (
        lambda: engine.push(lambda: None, [variable]),
        lambda: engine.wait_for_variable(variable),
        lambda: engine.variable_version(variable),
        lambda: engine.delete_variable(variable),
    ):
        with pytest.raises(ArgumentError, match="deleted"):
            use()


def test_a_closed_engine_refuses() -> None:
    engine = mx_engine.create(workers=1)
    variable = engine.new_variable()
    engine.notify_shutdown()
    with pytest.raises(EngineShutdownError):
        engine.push(lambda: None, writes=[variable])
    assert engine.wait_for_variable(variable)


def test_waiting_and_pushing_inside_operations(engine: mx_engine.Engine) -> None:
    def deep(level: int) -> int:
        if level == 0:
            return 1
        variable, parts = engine.new_variable(), []
        for _ in range(2):
            engine.push(lambda: parts.append(deep(level - 1)), writes=[variable])
        engine.wait_for_variable(variable)
        return sum(parts)

    variable, result = engine.new_variable(), []
    engine.push(lambda: result.append(deep(5)), writes=[variable])
    assert engine.wait_for_variable(variable, timeout=30)
    assert result == [32]


def test_waiting_for_oneself_is_refused(engine: mx_engine.Engine) -> None:
    variable = engine.new_variable()
    engine.push(lambda: engine.wait_for_variable(variable), writes=[variable], name="ouroboros")
    with pytest.raises(MXNetError, match="inside operation 'ouroboros'.*wait for itself"):
        engine.wait_for_variable(variable)
    engine.push(engine.wait_for_all, writes=[variable])
    with pytest.raises(MXNetError, match="wait for itself"):
        engine.wait_for_variable(variable)


def test_waits_with_a_limit(engine: mx_engine.Engine) -> None:
    variable, go = engine.new_variable(), threading.Event()
    engine.push(go.wait, writes=[variable])
    assert not engine.wait_for_variable(variable, timeout=0.01)
    assert not engine.wait_for_all(timeout=0.01)
    assert not engine.drain(0.01)
    assert not engine.variable_ready(variable)
    go.set()
    assert engine.wait_for_variable(variable, timeout=30)
    assert engine.variable_ready(variable, for_write=True)


def test_operations_know_what_they_read(engine: mx_engine.Engine) -> None:
    read, written, other, said = *(engine.new_variable() for _ in range(3)), []
    engine.push(
        lambda: said.extend(map(engine.is_reading, (read, written, other))), reads=[read], writes=[written]
    )
    engine.wait_for_all()
    assert said == [True, False, False]
    assert not engine.is_reading(read)


def test_asynchronous_operations(engine: mx_engine.Engine) -> None:
    variable, log = engine.new_variable(), []

    def start(done: mx_engine.Completion) -> None:
        def finish() -> None:
            log.append("finished")
            done()

        threading.Timer(0.02, finish).start()

    engine.push_async(start, writes=[variable])
    engine.push(lambda: log.append("after"), writes=[variable])
    engine.wait_for_variable(variable)
    assert log == ["finished", "after"]

    engine.push_async(lambda done: done(OSError("device lost")), writes=[variable])
    with pytest.raises(OSError, match="device lost"):
        engine.wait_for_variable(variable)
    engine.push_async(lambda done: {}["early"], writes=[variable])
    with pytest.raises(KeyError, match="early"):
        engine.wait_for_variable(variable)
    engine.push_async(lambda done: None, writes=[variable])
    with pytest.raises(MXNetError, match="never called"):
        engine.wait_for_variable(variable)


def test_done_counts_once(engine: mx_engine.Engine) -> None:
    variable, kept = engine.new_variable(), []

    def start(done: mx_engine.Completion) -> None:
        kept.append(done)
        done()

    engine.push_async(start, writes=[variable])
    engine.wait_for_variable(variable)
    with pytest.raises(MXNetError, match="twice"):
        kept[0]()
    with pytest.raises(ArgumentError, match="exception"):
        kept[0](3)


def test_deleters_run_behind_the_last_use(engine: mx_engine.Engine) -> None:
    variable, log, go = engine.new_variable(), [], threading.Event()
    engine.push(go.wait, reads=[variable])
    engine.push(lambda: log.append("use"), writes=[variable])
    engine.delete_variable(variable, lambda: log.append("deleted"))
    assert log == []
    go.set()
    engine.wait_for_all()
    assert log == ["use", "deleted"]


def test_variables_and_functions_are_freed(engine: mx_engine.Engine) -> None:
    freed = []

    class Probe:
        def __call__(self) -> None:
            pass

        def __del__(self) -> None:
            freed.append(1)

    for _ in range(50):
        engine.push(Probe(), writes=[engine.new_variable()])
    engine.wait_for_all()
    for _ in range(1000):
        if len(freed) == 50:
            break
        time.sleep(0.001)  # references are dropped on the main thread
    gc.collect()
    assert len(freed) == 50


def test_an_iterator_may_have_the_only_references(engine: mx_engine.Engine) -> None:
    log: list[int] = []
    started, gate = threading.Event(), threading.Event()
    engine.push(lambda: (started.set(), gate.wait(30)))  # what follows is queued behind it
    assert started.wait(30)
    for i in range(50):
        engine.push(lambda i=i: log.append(i), writes=(engine.new_variable() for _ in range(4)))
    gate.set()
    engine.wait_for_all()
    assert sorted(log) == list(range(50))


def test_priorities_and_contexts(engine: mx_engine.Engine) -> None:
    single = mx_engine.create(workers=1)
    go, order = threading.Event(), []
    single.push(go.wait)
    for priority in (0, -2, 7, 0, 3):
        single.push(lambda p=priority: order.append(p), priority=priority, context=cpu(1))
    go.set()
    single.wait_for_all()
    assert order == [7, 3, 0, 0, -2]


def test_stop_and_workers(engine: mx_engine.Engine) -> None:
    variable, count = engine.new_variable(), []
    for n in (1, 4, 2):
        engine.workers = n
        assert engine.workers == n
        engine.push(lambda: count.append(1), writes=[variable])
        engine.stop()
        assert engine.pending == 0
    assert len(count) == 3


def test_pushes_from_many_threads(engine: mx_engine.Engine) -> None:
    variables = [engine.new_variable() for _ in range(4)]
    balance = [0] * 4

    def transfer(i: int, j: int) -> None:
        a, b = balance[i], balance[j]
        time.sleep(0)
        balance[i], balance[j] = a - 1, b + 1

    def work(seed: int) -> None:
        for k in range(100):
            i = (seed + k) % 4
            j = (i + 1 + k % 3) % 4
            engine.push(lambda i=i, j=j: transfer(i, j), writes=[variables[j], variables[i]])

    threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.wait_for_all()
    assert sum(balance) == 0
    assert sum(engine.variable_version(v) for v in variables) == 8 * 100 * 2


def test_a_naive_engine_runs_and_raises_at_the_push(naive: mx_engine.Engine) -> None:
    variable, log = naive.new_variable(), []
    here = threading.get_ident()
    naive.push(lambda: log.append(threading.get_ident()), writes=[variable])
    assert log == [here]
    with pytest.raises(KeyError, match="now"):
        naive.push(lambda: {}["now"], writes=[variable])
    assert isinstance(naive.variable_failure(variable), KeyError)
    assert naive.wait_for_variable(variable)
    assert naive.wait_for_all()
    assert naive.is_naive and naive.workers == 0


def test_a_naive_push_from_many_threads_is_safe(naive: mx_engine.Engine) -> None:
    variable, state = naive.new_variable(), [0]

    def increment() -> None:
        value = state[0]
        time.sleep(0)
        state[0] = value + 1

    def work() -> None:
        for _ in range(100):
            naive.push(increment, writes=[variable])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state == [400]


def test_unobserved_failures_are_known(engine: mx_engine.Engine) -> None:
    def lose() -> Any:
        raise ValueError("unseen")

    engine.push(lose)
    engine.drain(10)
    count, (text,) = engine.unobserved()
    assert count == 1
    assert text.startswith("ValueError: unseen (in operator ") and "test_core.py:" in text
    with pytest.raises(ValueError, match="unseen"):
        engine.wait_for_all()
    assert engine.unobserved() == (0, [])


def test_no_number_of_parallel_threads_restores_the_runtimes_own(
    openmp: ctypes.CDLL, python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    program = """
import ctypes
import mx_engine
runtime = ctypes.CDLL("libgomp.so.1")
engine = mx_engine.Engine("ThreadedEnginePerDevice", python_workers=1)
v, seen = engine.new_variable(), []
own = runtime.omp_get_max_threads()
for number in (own + 2, 0, own + 1, 0):
    engine.num_omp_threads_per_worker = number
    engine.push(lambda: seen.append(runtime.omp_get_max_threads()), writes=(v,))
    engine.wait_for_all()
assert seen == [own + 2, own, own + 1, own], (own, seen)
"""
    done = python(program)
    assert done.returncode == 0, done.stderr
