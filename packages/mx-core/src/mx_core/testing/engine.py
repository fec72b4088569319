# SPDX-License-Identifier: Apache-2.0
"""Contract tests for engines, with any number of threads."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mx_core.errors import MXNetError
from mx_core.testing.device import FakeDevice
from mx_core.testing.expect import check_attributes, check_equal, raises, within

TIMEOUT = 60.0


class EngineContract:
    """Tests of an engine's Python face: derive, name the class `Test…`, write `make_engine`.

    The engine has `push(fn, reads=(), writes=(), *, context, priority, name, property)`,
    `new_variable()`, `delete_variable(v)`, `variable_version(v)`, `wait_for_variable(v)`,
    `wait_for_all()`, `stop()`, `.capsule`, `.name`, `.workers` (threads that compute), and
    `.is_naive`, true where it runs everything at the push. `push_async` and `attach_device` are
    tested where it has them.
    """

    #: what every engine has
    required = (
        "capsule", "name", "workers", "is_naive", "push", "new_variable", "delete_variable", "variable_version",
        "wait_for_variable", "wait_for_all", "stop",
    )  # fmt: skip

    def make_engine(self) -> Any:
        """A new engine, used by one test and then stopped."""
        raise NotImplementedError

    @contextmanager
    def _engine(self) -> Iterator[Any]:
        engine = self.make_engine()
        try:
            yield engine
        finally:
            engine.stop()

    def test_has_every_attribute(self) -> None:
        engine = self.make_engine()
        check_attributes(engine, self.required)
        engine.stop()

    def test_offers_a_table_and_a_name(self) -> None:
        from mx_core import _native

        with self._engine() as engine:
            _native.check_table(engine.capsule, "the engine's contract")
            assert isinstance(engine.name, str) and engine.name, f"name: expected a text, got {engine.name!r}"

    @within(TIMEOUT)
    def test_writes_of_one_variable_run_in_push_order(self) -> None:
        with self._engine() as engine:
            v, order = engine.new_variable(), []
            for i in range(200):
                engine.push(lambda i=i: order.append(i), writes=(v,))
            engine.wait_for_variable(v)
            check_equal("order of the writes", order, list(range(200)))

    @within(TIMEOUT)
    def test_a_reader_sees_the_write_before_it_and_not_the_one_after(self) -> None:
        with self._engine() as engine:
            a, b = engine.new_variable(), engine.new_variable()
            cell, seen = [0], []

            def write(value: int) -> None:
                time.sleep(0.001)
                cell[0] = value

            for i in range(20):
                engine.push(lambda i=i: write(i), writes=(a,))
                engine.push(lambda: seen.append(cell[0]), reads=(a,), writes=(b,))
            engine.wait_for_variable(b)
            check_equal("what the readers saw", seen, list(range(20)))

    @within(TIMEOUT)
    def test_random_programs_end_as_if_run_one_by_one(self) -> None:
        with self._engine() as engine:
            for seed in range(5):
                source = random.Random(seed)
                variables = [engine.new_variable() for _ in range(6)]
                state, model = [1] * 6, [1] * 6
                for step in range(120):
                    chosen = source.sample(range(6), source.randint(1, 4))
                    split = source.randint(1, len(chosen))
                    writes, reads = chosen[:split], chosen[split:]

                    def run(
                        cells: list[int] = state,
                        writes: list[int] = writes,
                        reads: list[int] = reads,
                        step: int = step,
                    ) -> None:
                        total = sum(cells[r] for r in reads) + step
                        for w in writes:
                            cells[w] = (cells[w] * 31 + total) % 1_000_003

                    engine.push(
                        run, reads=[variables[r] for r in reads], writes=[variables[w] for w in writes]
                    )
                    run(model, writes, reads, step)
                engine.wait_for_all()
                check_equal(f"state after the random program of seed {seed}", state, model)

    @within(TIMEOUT)
    def test_the_version_counts_completed_writes(self) -> None:
        with self._engine() as engine:
            v = engine.new_variable()
            before = engine.variable_version(v)
            for _ in range(3):
                engine.push(lambda: None, writes=(v,))
            engine.push(lambda: None, reads=(v,))
            engine.wait_for_variable(v)
            check_equal("version after three writes", engine.variable_version(v), before + 3)

    @within(TIMEOUT)
    def test_the_wait_raises_the_original_exception_once(self) -> None:
        with self._engine() as engine:
            v = engine.new_variable()
            cause = KeyError("the cause")

            def fail() -> None:
                raise cause

            with raises(KeyError, "the cause") as caught:
                engine.push(fail, writes=(v,), name="failing")
                engine.wait_for_variable(v)
            assert caught[0] is cause, "the exception must keep its identity and traceback"
            engine.wait_for_variable(v)
            engine.push(lambda: None, writes=(v,))
            engine.wait_for_all()

    @within(TIMEOUT)
    def test_what_depends_on_a_failure_is_skipped_and_fails_alike(self) -> None:
        with self._engine() as engine:
            if getattr(engine, "is_naive", False):
                return
            a, b, c = (engine.new_variable() for _ in range(3))
            ran: list[str] = []
            engine.push(lambda: 1 // 0, writes=(a,))
            engine.push(lambda: ran.append("dependent"), reads=(a,), writes=(b,))
            engine.push(lambda: ran.append("independent"), writes=(c,))
            with raises(ZeroDivisionError):
                engine.wait_for_variable(b)
            engine.wait_for_variable(c)
            check_equal("operations that ran next to a failure", ran, ["independent"])

    def test_a_variable_listed_twice_is_refused(self) -> None:
        with self._engine() as engine:
            v = engine.new_variable()
            for reads, writes in (((v,), (v,)), ((), (v, v)), ((v, v), ())):
                with raises(MXNetError):
                    engine.push(lambda: None, reads=reads, writes=writes)
            engine.wait_for_all()

    @within(TIMEOUT)
    def test_a_deleted_variable_lives_until_its_operations_have_run(self) -> None:
        with self._engine() as engine:
            v, ran = engine.new_variable(), []

            def slow() -> None:
                time.sleep(0.05)
                ran.append(1)

            engine.push(slow, writes=(v,))
            engine.push(slow, reads=(v,))
            engine.delete_variable(v)
            engine.wait_for_all()
            check_equal("operations that ran on a deleted variable", ran, [1, 1])

    @within(TIMEOUT)
    def test_threads_may_push_at_the_same_time(self) -> None:
        with self._engine() as engine:
            v, cell = engine.new_variable(), [0]

            def increment() -> None:
                cell[0] += 1

            def pusher() -> None:
                for _ in range(100):
                    engine.push(increment, writes=(v,))

            threads = [threading.Thread(target=pusher) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            engine.wait_for_variable(v)
            check_equal("increments by four threads", cell, [400])

    @within(TIMEOUT)
    def test_an_operation_may_push_another(self) -> None:
        with self._engine() as engine:
            a, b = engine.new_variable(), engine.new_variable()
            ran: list[str] = []

            def push() -> None:
                own = engine.new_variable()
                engine.push(lambda: ran.append("own"), writes=(own,))
                engine.push(lambda: ran.append("declared"), writes=(b,))

            engine.push(push, writes=(a, b))
            engine.wait_for_variable(a)
            engine.wait_for_variable(b)
            engine.wait_for_all()
            check_equal("operations that ran", sorted(ran), ["declared", "own"])

    @within(TIMEOUT)
    def test_an_operation_pushes_what_it_did_not_declare_or_is_told(self) -> None:
        with self._engine() as engine:
            a, b, ran = engine.new_variable(), engine.new_variable(), []
            try:
                engine.push(lambda: engine.push(lambda: ran.append(1), writes=(b,)), writes=(a,))
                engine.wait_for_variable(a)
            except MXNetError as error:  # of an engine that checks what operations declare
                assert "declare" in str(error), f"expected that the write is run or not declared, got {error}"
                return
            engine.wait_for_variable(b)
            check_equal("operations that ran", ran, [1])

    @within(TIMEOUT)
    def test_wait_for_all_waits_for_everything(self) -> None:
        with self._engine() as engine:
            done: list[int] = []

            def slow() -> None:
                time.sleep(0.01)
                done.append(1)

            for _ in range(8):
                engine.push(slow, writes=(engine.new_variable(),))
            engine.wait_for_all()
            check_equal("operations that have ended after wait_for_all", len(done), 8)

    @within(TIMEOUT)
    def test_it_takes_pushes_after_a_stop(self) -> None:
        with self._engine() as engine:
            ran: list[int] = []
            engine.push(lambda: ran.append(1), writes=(engine.new_variable(),))
            engine.stop()
            assert ran == [1], "stop must drain"
            engine.push(lambda: ran.append(2), writes=(engine.new_variable(),))
            engine.wait_for_all()
            check_equal("operations that ran, one before and one after stop", ran, [1, 2])

    @within(TIMEOUT)
    def test_it_survives_many_stops(self) -> None:
        with self._engine() as engine:
            v, ran = engine.new_variable(), []
            for i in range(100):
                engine.push(lambda i=i: ran.append(i), writes=(v,))
                engine.stop()
            check_equal("operations that ran between stops", ran, list(range(100)))

    @within(TIMEOUT)
    def test_a_failure_is_raised_once_for_all_it_concerns(self) -> None:
        with self._engine() as engine:
            a, b = engine.new_variable(), engine.new_variable()
            with raises(ZeroDivisionError):
                engine.push(lambda: 1 // 0, writes=(a, b))
                engine.wait_for_variable(b)
            engine.wait_for_variable(a)
            with raises(ZeroDivisionError):
                engine.push(lambda: 1 // 0, writes=(a,))
                engine.wait_for_all()
            engine.wait_for_all()

    @within(TIMEOUT)
    def test_a_no_skip_operation_runs_in_spite_of_a_failure(self) -> None:
        with self._engine() as engine:
            if getattr(engine, "is_naive", False):
                return
            a, b, ran = engine.new_variable(), engine.new_variable(), []
            engine.push(lambda: 1 // 0, writes=(a,))
            engine.push(lambda: ran.append(1), reads=(a,), writes=(b,), property="no_skip")
            engine.wait_for_variable(b)
            check_equal("operations that ran", ran, [1])
            with raises(ZeroDivisionError):
                engine.wait_for_variable(a)

    @within(TIMEOUT)
    def test_an_operation_may_wait_for_another(self) -> None:
        with self._engine() as engine:
            a, b, order = engine.new_variable(), engine.new_variable(), []

            def inner() -> None:
                time.sleep(0.02)
                order.append("inner")

            engine.push(inner, writes=(a,))

            def outer() -> None:
                engine.wait_for_variable(a)
                order.append("outer")

            engine.push(outer, writes=(b,))
            engine.wait_for_variable(b)
            check_equal("order of an operation and the one that waits for it", order, ["inner", "outer"])

    @within(TIMEOUT)
    def test_one_push_may_name_thousands_of_variables(self) -> None:
        with self._engine() as engine:
            many, ran = [engine.new_variable() for _ in range(4000)], []
            engine.push(lambda: ran.append("before"), writes=(many[1234],))
            engine.push(lambda: ran.append("all"), reads=many[:2000], writes=many[2000:])
            engine.push(lambda: ran.append("after"), writes=(many[0], many[3999]))
            engine.wait_for_variable(many[3999])
            check_equal("what ran first", sorted(ran[:2]), ["all", "before"])
            check_equal("what ran last", ran[2:], ["after"])
            check_equal("version after one write", engine.variable_version(many[3000]), 1)

    @within(TIMEOUT)
    def test_sixteen_threads_push_crossing_sets(self) -> None:
        with self._engine() as engine:
            variables = [engine.new_variable() for _ in range(5)]
            seen: list[list[tuple[int, int]]] = [[] for _ in variables]

            def pusher(thread: int) -> None:
                source = random.Random(thread)
                for i in range(30):
                    chosen = source.sample(range(5), source.randint(1, 4))

                    def run(chosen: list[int] = chosen, mark: tuple[int, int] = (thread, i)) -> None:
                        for v in chosen:
                            seen[v].append(mark)

                    engine.push(run, writes=[variables[v] for v in chosen])

            threads = [threading.Thread(target=pusher, args=(t,)) for t in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            engine.wait_for_all()
            for v, marks in enumerate(seen):
                check_equal(f"version of variable {v}", engine.variable_version(variables[v]), len(marks))
                for w, others in enumerate(seen):
                    common = set(marks) & set(others)
                    assert [m for m in marks if m in common] == [m for m in others if m in common], (
                        f"variables {v} and {w} saw their operations in different orders"
                    )

    @within(TIMEOUT)
    def test_an_asynchronous_operation_ends_when_it_is_completed(self) -> None:
        with self._engine() as engine:
            if not hasattr(engine, "push_async"):
                return
            v, ran = engine.new_variable(), []

            def start(done: Any) -> None:
                def finish() -> None:
                    ran.append("async")
                    done()

                threading.Timer(0.02, finish).start()

            engine.push_async(start, writes=(v,))
            engine.push(lambda: ran.append("next"), writes=(v,))
            engine.wait_for_variable(v)
            check_equal("order of an asynchronous operation and the next", ran, ["async", "next"])
            with raises(KeyError):
                engine.push_async(lambda done: done(KeyError("late")), writes=(v,))
                engine.wait_for_variable(v)

    @within(TIMEOUT)
    def test_what_an_accelerator_does_is_done_when_its_token_is_reached(self) -> None:
        with self._engine() as engine:
            device = FakeDevice()
            v, w, order = engine.new_variable(), engine.new_variable(), []
            if not hasattr(engine, "attach_device"):
                return
            with raises(MXNetError):
                engine.push(lambda: None, writes=(v,), context=device.context())
            engine.attach_device(device.capsule)

            def slow() -> None:
                time.sleep(0.03)
                order.append("compute")

            engine.push(lambda: device.enqueue(slow), writes=(v,), context=device.context())
            engine.push(
                lambda: device.enqueue(lambda: order.append("copy"), 1, 2),
                reads=(v,),
                writes=(w,),
                context=device.context(1),
                property="copy_from_device",
            )
            engine.push(lambda: order.append("host"), reads=(w,))
            engine.wait_for_all()
            check_equal("order of operations on devices", order, ["compute", "copy", "host"])
            check_equal("version after one write", engine.variable_version(v), 1)
            check_equal("tokens that were recorded and not released", device.tokens, 0)
            with raises(Exception, "lost on the way"):
                engine.push(
                    lambda: device.enqueue(lambda: _fail("lost on the way")),
                    writes=(v,),
                    context=device.context(),
                )
                engine.push(lambda: order.append("never"), reads=(v,), writes=(w,))
                engine.wait_for_variable(w)
            assert "never" not in order, "an operation ran that reads what failed on a device"


def _fail(text: str) -> None:
    raise RuntimeError(text)
