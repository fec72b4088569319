# SPDX-License-Identifier: Apache-2.0
"""A plug-in with an accelerator that is main memory and threads, see cpp/device.hpp."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mx_core import get_include, kernels, plugins
from mx_core.context import Context, cpu
from mx_core.plugins.registrars import REGISTRARS
from mx_core.plugins.registries import Provenance, Transaction

NAME = "test_device"
TYPE = 71
COUNT = 2
_CPP = Path(__file__).parents[2] / "packages" / "mx-ndarray" / "tests" / "cpp"


class Library:
    """The compiled accelerator; its tables as capsules."""

    def __init__(self, folder: Path) -> None:
        target = folder / "libtest_device.so"
        subprocess.run(
            ["c++", "-std=c++17", "-O1", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread",
             f"-I{get_include()}", str(_CPP / "device_library.cc"), "-o", str(target)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        self.native = ctypes.CDLL(str(target))
        for name in ("device_table", "storage_table", "launched_plan"):
            getattr(self.native, name).restype = ctypes.c_void_p
        self.native.launched_plan.argtypes = [ctypes.c_void_p]
        self.native.bytes_in_use.restype = ctypes.c_int64
        self.native.set_limit.argtypes = [ctypes.c_int64]
        self.native.set_delay.argtypes = [ctypes.c_int64]

    def launched(self, plan: object) -> object:
        """A plan of the host as one of the device."""
        host = _get_pointer(plan, b"mx.plan.v1")
        return _new_capsule(self.native.launched_plan(host), b"mx.plan.v1", None)


class Table:
    """A service: what mx_core.services hands out."""

    def __init__(self, pointer: int, capsule: bytes) -> None:
        self.capsule = _new_capsule(pointer, capsule, None)

    def release_all(self, context: Context) -> None:
        """Nothing is pooled."""


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


@contextmanager
def installed(library: Library) -> Iterator[None]:
    """The plug-in among the others for a while, as the loader would have put it there."""
    from mx_storage.managers import random

    def make(call: kernels.KernelCall) -> Any:
        prepared = kernels.prepare(call.op, call.params, call.inputs, call.outputs, cpu(), call.is_train)
        return None if prepared.plan is None else library.launched(prepared.plan)

    transaction = Transaction(Provenance(NAME, "tests", "0"))
    add = {kind: registrar(transaction).add for kind, registrar in REGISTRARS.items()}
    add["devices"](NAME, TYPE, lambda: COUNT,
                   lambda: Table(library.native.device_table(), b"mx.device.v1"))  # fmt: skip
    add["storage_managers"](NAME, "Host",
                            lambda: Table(library.native.storage_table(), b"mx.storage.v1"))  # fmt: skip
    add["resources"]("random", NAME, random)
    add["kernel_generators"](NAME, "launched", lambda expression, call: make(call))
    for operator in sorted(
        {e.value.op for e in plugins.registry("kernels").items() if e.value.device == "cpu"}
    ):
        add["kernels"](operator, NAME, "launched", make)
    registries = {kind: plugins.registry(kind) for kind in REGISTRARS}
    transaction.commit(registries)
    Context.register(NAME, TYPE)
    try:
        yield
    finally:
        for entry in transaction.staged:
            for table in (registries[entry.kind]._entries, registries[entry.kind]._by_key):
                for name in (entry.name, *entry.aliases):
                    table.pop(name, None)
            registries[entry.kind]._sorted = None
