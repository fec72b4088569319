# SPDX-License-Identifier: Apache-2.0
"""The stand-in for cuDNN takes no attribute that cuDNN itself refuses: `nox -s cudnn`.

Both are asked about every attribute that the package names, for every kind of descriptor, with every type and several
numbers of values. cuDNN looks into descriptors that are given as values, so these are tensors, and attributes that hold
another kind of descriptor are not asked with that type.
"""

from __future__ import annotations

import ctypes
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mx_operators_cuda import cudnn
from testkit import fake_machine

HEADER = Path(__file__).parents[2] / "packages/mx-operators-cuda/csrc/cudnn.hpp"
DESCRIPTOR, TENSOR, COUNTS = 15, 17, (0, 1, 2, 4)
#: types of handles and addresses, which are null
POINTERS = (0, 6)
#: attributes that hold descriptors of configurations, engines, graphs and properties
OTHERS = {(3, 300), (4, 201), (4, 204), (5, 401), (5, 407), (15, 801)}


def numbers(what: str) -> list[int]:
    """Those of an enumeration of the package."""
    found = re.search(rf"enum {what} : int {{(.*?)}};", HEADER.read_text(), re.S)
    assert found is not None
    return [int(value) for value in re.findall(r"k\w+ = (\d+)", found[1])]


class Library:
    """cuDNN, or the stand-in."""

    def __init__(self, path: str) -> None:
        self.functions = ctypes.CDLL(path)
        self.functions.cudnnBackendSetAttribute.argtypes = [
            ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p,
        ]  # fmt: skip
        self.functions.cudnnBackendFinalize.argtypes = [ctypes.c_void_p]
        self.functions.cudnnBackendDestroyDescriptor.argtypes = [ctypes.c_void_p]
        self.tensor = self.descriptor(TENSOR)
        for attribute, kind, values in (
            (901, 1, [0]), (902, 3, [2, 3, 4, 5]), (903, 3, [60, 20, 5, 1]), (906, 3, [1]), (900, 3, [16]),
        ):  # fmt: skip
            made = ((ctypes.c_int if kind == 1 else ctypes.c_int64) * len(values))(*values)
            assert self.set(self.tensor, attribute, kind, len(values), made) == 0
        assert self.functions.cudnnBackendFinalize(self.tensor) == 0

    def descriptor(self, kind: int) -> Any:
        """A new one."""
        made = ctypes.c_void_p()
        assert self.functions.cudnnBackendCreateDescriptor(kind, ctypes.byref(made)) == 0
        return made

    def set(self, descriptor: Any, attribute: int, kind: int, count: int, values: Any) -> int:
        """The status."""
        status: int = self.functions.cudnnBackendSetAttribute(descriptor, attribute, kind, count, values)
        return status

    def takes(self, kind: int, attribute: int, of: int, count: int) -> bool:
        """Whether such an attribute can be set."""
        values: Any = (ctypes.c_int64 * 8)(*[0 if of in POINTERS else 1] * 8)
        if of == DESCRIPTOR:
            values = (ctypes.c_void_p * 8)(*[self.tensor.value] * 8)
        descriptor = self.descriptor(kind)
        status = self.set(descriptor, attribute, of, count, values)
        self.functions.cudnnBackendDestroyDescriptor(descriptor)
        return status == 0


def test_the_stand_in_takes_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> None:
    path = cudnn.load()[0]
    real = Library(path)
    machine = fake_machine.Machine(tmp_path_factory, pytestconfig)
    stand_in = Library(machine.environment["FAKE_CUDNN"])
    wrong, taken = [], 0
    for kind, attribute, of, count in product(numbers("Kind"), numbers("Attribute"), numbers("Type"), COUNTS):
        if of == DESCRIPTOR and (kind, attribute) in OTHERS:
            continue
        if stand_in.takes(kind, attribute, of, count):
            taken += 1
            if not real.takes(kind, attribute, of, count):
                wrong.append((kind, attribute, of, count))
    print(f"\n{taken} ways to set an attribute are taken")
    assert taken > 80 and not wrong, wrong
