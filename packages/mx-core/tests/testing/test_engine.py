# SPDX-License-Identifier: Apache-2.0
"""The engine contract accepts a simple engine and finds each of several faults."""

import ctypes
import threading

import pytest

from mx_core.errors import ArgumentError
from mx_core.testing import EngineContract
from mx_core.testing.tables import Head


def capsule():
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(HEAD), b"mx.engine.v1", None)


HEAD = Head(4096, 1, 0)  # a later table than ours has more slots


class Variable:
    version = 0


class Engine:
    """Runs everything at the push, one after the other."""

    name = "Simple"
    is_naive = True
    workers = 1

    def __init__(self):
        self.capsule = capsule()
        self.lock = threading.RLock()

    def new_variable(self):
        return Variable()

    def push(self, fn, reads=(), writes=(), *, priority=0, name=None, property="normal"):
        listed = [*reads, *writes]
        if len({id(v) for v in listed}) != len(listed):
            raise ArgumentError("a variable is listed twice")
        with self.lock:
            try:
                fn()
            finally:
                for variable in writes:
                    variable.version += 1

    def variable_version(self, variable):
        return variable.version

    def nothing(self, *arguments):
        pass

    delete_variable = wait_for_variable = wait_for_all = stop = start = nothing


class TestSimpleEngine(EngineContract):
    def make_engine(self):
        return Engine()


class Reversed(Engine):
    """Runs what was pushed last first."""

    def __init__(self):
        super().__init__()
        self.todo = []

    def push(self, fn, reads=(), writes=(), **options):
        self.todo.append((fn, reads, writes))

    def wait_for_all(self, *variable):
        while self.todo:
            fn, reads, writes = self.todo.pop()
            super().push(fn, reads, writes)

    wait_for_variable = stop = wait_for_all


class Forgetful(Engine):
    """Swallows failures and counts no versions."""

    def push(self, fn, reads=(), writes=(), **options):
        try:
            fn()
        except Exception:
            return


class Careless(Engine):
    """Takes a variable that is listed twice."""

    def push(self, fn, reads=(), writes=(), **options):
        fn()
        for variable in writes:
            variable.version += 1


class Hasty(Engine):
    """Takes what an accelerator was asked to do for done, and what is to end later, too."""

    def attach_device(self, capsule):
        self.attached = True

    def push(self, fn, reads=(), writes=(), *, context=None, **options):
        if context is not None and not hasattr(self, "attached"):
            raise ArgumentError("no such device")
        super().push(fn, reads, writes)

    def push_async(self, fn, reads=(), writes=()):
        super().push(lambda: fn(lambda error=None: None), reads, writes)


class Repeating(Engine):
    """Raises a failure at every wait."""

    failure = None

    def push(self, fn, reads=(), writes=(), **options):
        try:
            fn()
        except Exception as error:
            self.failure = error

    def wait_for_variable(self, *variable):
        if self.failure is not None:
            raise self.failure

    wait_for_all = wait_for_variable


FAULTS = [
    (Reversed, "writes_of_one_variable_run_in_push_order"),
    (Reversed, "a_reader_sees_the_write_before_it_and_not_the_one_after"),
    (Reversed, "random_programs_end_as_if_run_one_by_one"),
    (Forgetful, "the_version_counts_completed_writes"),
    (Forgetful, "the_wait_raises_the_original_exception_once"),
    (Careless, "a_variable_listed_twice_is_refused"),
    (Hasty, "what_an_accelerator_does_is_done_when_its_token_is_reached"),
    (Hasty, "an_asynchronous_operation_ends_when_it_is_completed"),
]


def test_a_failure_that_comes_again_is_found():
    contract = EngineContract()
    contract.make_engine = Repeating
    with pytest.raises(ZeroDivisionError):
        contract.test_a_failure_is_raised_once_for_all_it_concerns()


@pytest.mark.parametrize(("engine", "test"), FAULTS)
def test_faults_are_found(engine, test):
    contract = EngineContract()
    contract.make_engine = engine
    with pytest.raises(AssertionError):
        getattr(contract, f"test_{test}")()
