# SPDX-License-Identifier: Apache-2.0
"""An engine that a third party might write: pure Python, runs everything at the push.

It offers the whole table `mx.engine.v1`, so that mx's arrays work on it, and the Python face that
`mx_core.testing.EngineContract` tests. As a plug-in it needs an entry point in the group
`mx.plugins.v1`; the folder beside this file is what an installation would leave. An engine for daily
use is native: here every call of the table takes the GIL, and one made while an exception is on its
way (an array that goes out of scope) would spoil it.
"""

from __future__ import annotations

import ctypes as c
import itertools
import threading

from mx_core.errors import ArgumentError, MXNetError
from mx_core.plugins.hookspecs import PluginInfo, hookimpl
from mx_core.testing.tables import Context, Error, Head

MX_PLUGIN = PluginInfo(summary="An engine that runs everything at the push")
MX_HOOK_API = (1, 0)

P, I32, U32, U64, I64 = c.c_void_p, c.c_int32, c.c_uint32, c.c_uint64, c.c_int64
RELEASE = c.CFUNCTYPE(None, P)
ERROR_VALUE = 4


class Failure(c.Structure):
    """mx_failure."""

    _fields_ = [("head", Head), ("code", I32), ("payload_kind", I32), ("payload", P), ("message", c.c_char_p),
                ("operator_name", c.c_char * 96), ("origin", c.c_char * 256), ("retain", RELEASE),
                ("release", RELEASE)]  # fmt: skip


class RunContext(c.Structure):
    """mx_run_context."""

    _fields_ = [("size", U32), ("worker", U32), ("context", Context), ("stream", P)]


class Operation(c.Structure):
    """mx_operation."""

    _fields_ = [("size", U32), ("flags", U32), ("context", Context), ("property", I32), ("priority", I32),
                ("name", c.c_char_p), ("origin", c.c_char_p), ("reads", c.POINTER(P)),
                ("writes", c.POINTER(P)), ("n_reads", U32), ("n_writes", U32),
                ("run", c.CFUNCTYPE(P, P, c.POINTER(RunContext))),
                ("run_async", c.CFUNCTYPE(None, P, c.POINTER(RunContext), P)), ("argument", P),
                ("destroy", RELEASE)]  # fmt: skip


OPERATION, ERROR, FAILURE = c.POINTER(Operation), c.POINTER(Error), c.POINTER(P)
SLOTS = [
    ("retain", None, []), ("release", None, []), ("intern", P, [c.c_char_p]), ("new_variable", P, []),
    ("delete_variable", None, [P, Context, RELEASE, P]), ("variable_version", U64, [P]),
    ("push", I32, [OPERATION, FAILURE, ERROR]), ("complete", None, [P, P]),
    ("new_operator", P, [OPERATION, ERROR]), ("push_operator", I32, [P, Context, I32, FAILURE, ERROR]),
    ("delete_operator", None, [P]), ("wait_for_variable", I32, [P, I32, I64, FAILURE, ERROR]),
    ("wait_for_all", I32, [I64, FAILURE, ERROR]), ("variable_failure", P, [P]),
    ("variable_ready", I32, [P, I32]), ("pending", U64, []), ("stop", None, []),
    ("notify_shutdown", None, []), ("set_workers", I32, [I32]), ("workers", I32, []),
    ("set_bulk_size", I32, [I32]), ("set_sink", None, [P, P]), ("is_naive", I32, []),
    ("attach_device", I32, [P, ERROR]),
]  # fmt: skip


class Api(c.Structure):
    """mx_engine_api."""

    _fields_ = [
        ("head", Head),
        ("self", P),
        *((n, c.CFUNCTYPE(result, P, *arguments)) for n, result, arguments in SLOTS),
    ]


class TinyEngine:
    """Runs one operation after the other under one lock, on the pushing threads."""

    name = "TinyEngine"
    is_naive = True
    workers = 1

    def __init__(self):
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._versions, self._failures, self._operators, self._running = {}, {}, {}, {}
        self._texts = {}
        fields = dict(Api._fields_)
        slots = {n: fields[n](getattr(self, "_" + n, lambda *_: 0)) for n, _, _ in SLOTS}
        self._table = Api(head=Head(c.sizeof(Api), 1, 0), **slots)
        new = c.pythonapi.PyCapsule_New
        new.restype, new.argtypes = c.py_object, [P, c.c_char_p, P]
        self.capsule = new(c.addressof(self._table), b"mx.engine.v1", None)

    # ---- the Python face ------------------------------------------------------------------------

    def new_variable(self):
        return self._new_variable(None)

    def delete_variable(self, variable, deleter=None):
        with self._lock:
            del self._versions[variable]
        if deleter is not None:
            deleter()

    def variable_version(self, variable):
        return self._versions[variable]

    def push(self, fn, reads=(), writes=(), *, context=None, priority=0, name=None, property="normal"):
        listed = [*reads, *writes]
        if len(set(listed)) != len(listed):
            raise ArgumentError(f"[{name or 'push'}] expected distinct variables")
        with self._lock:
            try:
                fn()
            finally:
                self._wrote(writes, None)

    def push_async(self, fn, reads=(), writes=(), **options):
        done, errors = threading.Event(), []

        def complete(error=None):
            errors.append(error)
            done.set()

        def run():
            fn(complete)
            done.wait()
            if errors[0] is not None:
                raise errors[0]

        self.push(run, reads, writes, **options)

    def wait_for_variable(self, variable, **options):
        with self._lock:
            return True

    def wait_for_all(self, **options):
        return self.wait_for_variable(None)

    def stop(self):
        self.wait_for_all()

    def attach_device(self, capsule):
        raise MXNetError("TinyEngine knows no accelerators")

    # ---- the table ------------------------------------------------------------------------------

    def _wrote(self, writes, failure):
        for variable in writes:
            if variable in self._versions:
                self._versions[variable] += 1
                self._failures[variable] = failure

    def _intern(self, _, text):
        kept = self._texts.setdefault(text, c.create_string_buffer(text))
        return c.addressof(kept)

    def _new_variable(self, _):
        number = next(self._numbers)
        self._versions[number] = 0
        return number

    def _delete_variable(self, _, variable, context, deleter, argument):
        self.delete_variable(variable, (lambda: deleter(argument)) if deleter else None)

    def _variable_version(self, _, variable):
        return self._versions[variable]

    def _push(self, _, pointer, failure, error):
        operation = pointer[0]
        status = self._run(operation, operation.context, failure, error)
        if operation.destroy:
            operation.destroy(operation.argument)
        return status

    def _run(self, operation, context, failure, error):
        if failure:
            failure[0] = None
        reads = operation.reads[: operation.n_reads]
        writes = operation.writes[: operation.n_writes]
        if len({*reads, *writes}) != len(reads) + len(writes):
            return self._refuse(error, b"expected distinct variables")
        run = RunContext(c.sizeof(RunContext), 0, context, None)
        with self._lock:
            if operation.run:
                cause = operation.run(operation.argument, run)
            else:
                number, outcome = next(self._numbers), []
                self._running[number] = (threading.Event(), outcome)
                operation.run_async(operation.argument, run, number)
                self._running[number][0].wait()
                del self._running[number]
                cause = outcome[0]
            self._wrote(writes, cause)
        if cause and failure:
            held = Failure.from_address(cause)
            held.retain(cause)  # the variables keep the other reference
            failure[0] = cause
        return 0

    @staticmethod
    def _refuse(error, text):
        if error:
            error[0].code, error[0].message = ERROR_VALUE, text
        return ERROR_VALUE

    def _complete(self, _, number, failure):
        event, outcome = self._running[number]
        outcome.append(failure)
        event.set()

    def _new_operator(self, _, prototype, error):
        number, copy = next(self._numbers), Operation()
        c.memmove(c.addressof(copy), prototype, c.sizeof(Operation))
        reads = (P * copy.n_reads)(*copy.reads[: copy.n_reads])
        writes = (P * copy.n_writes)(*copy.writes[: copy.n_writes])
        copy.reads, copy.writes = c.cast(reads, c.POINTER(P)), c.cast(writes, c.POINTER(P))
        self._operators[number] = (copy, reads, writes)
        return number

    def _push_operator(self, _, number, context, priority, failure, error):
        return self._run(self._operators[number][0], context, failure, error)

    def _delete_operator(self, _, number):
        operation = self._operators.pop(number)[0]
        if operation.destroy:
            operation.destroy(operation.argument)

    def _wait_for_variable(self, _, variable, for_write, timeout, failure, error):
        return self._wait_for_all(None, timeout, failure, error)

    def _wait_for_all(self, _, timeout, failure, error):
        if failure:
            failure[0] = None
        with self._lock:
            return 0

    def _variable_failure(self, _, variable):
        cause = self._failures.get(variable)
        if cause:
            Failure.from_address(cause).retain(cause)
        return cause

    def _variable_ready(self, _, variable, for_write):
        return 1

    def _workers(self, _):
        return 1

    _is_naive = _workers

    def _set_workers(self, _, n):
        return 1

    def _attach_device(self, _, device, error):
        return self._refuse(error, b"TinyEngine knows no accelerators")


@hookimpl
def mx_register_engines(registry):
    registry.add("TinyEngine", TinyEngine, priority=-50)
