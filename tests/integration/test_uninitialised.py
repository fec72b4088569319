# SPDX-License-Identifier: Apache-2.0
"""Objects of native classes that `__new__` alone has made, and attributes that raise, are refused."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from mx_core import services
from mx_ndarray import nd

CLASSES = {
    "mx_engine._core": {"Engine": "pending", "Recorder": "dropped"},
    "mx_storage._core": {"StorageManager": "stats", "Block": "address"},
    "mx_symbol._core": {"FlatGraph": "variables", "Program": "segments"},
}


@pytest.mark.parametrize(
    ("module", "name", "attribute"),
    [(module, name, attribute) for module, names in CLASSES.items() for name, attribute in names.items()],
)
def test_what_was_never_initialised_is_refused(module: str, name: str, attribute: str) -> None:
    cls = getattr(importlib.import_module(module), name)
    made = cls.__new__(cls)

    def use() -> None:
        found = getattr(made, attribute)
        if callable(found):
            found(0) if attribute == "segments" else found()

    assert hasattr(cls, attribute)
    with pytest.raises(TypeError, match=r"never initialised.*__init__"):
        use()


def test_it_is_refused_as_an_argument_and_as_a_buffer() -> None:
    engine, storage = (importlib.import_module(f"mx_{name}._core") for name in ("engine", "storage"))
    with pytest.raises(TypeError):
        services.engine().push(lambda: None, writes=[engine.Variable.__new__(engine.Variable)])
    with pytest.raises(TypeError, match="never initialised"):
        memoryview(storage.Block.__new__(storage.Block))


class Undecided:
    def __bool__(self) -> bool:
        raise ZeroDivisionError


@pytest.mark.parametrize("attribute", ["writable", "_fresh_grad"])
def test_what_a_truth_value_raises_is_raised(attribute: str) -> None:
    x: Any = nd.ones((2,))
    x.attach_grad()
    before = getattr(x, attribute)
    with pytest.raises(ZeroDivisionError):
        setattr(x, attribute, Undecided())
    assert getattr(x, attribute) == before
