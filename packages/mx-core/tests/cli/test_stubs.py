# SPDX-License-Identifier: Apache-2.0
"""Stubs have what a module defines, and a typed function per operator that it offers."""

import sys
import types

import pytest
from click.testing import CliRunner

from mx_core.cli import cli
from mx_core.cli import stub_text as stubs
from mx_core.operator import Operator, Params, opt, required

SOURCE = '''
from __future__ import annotations
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal as Decimal

def ones(shape: tuple[int, ...], *, like: Decimal | None = None) -> Array:
    """Ones."""
    return Array(shape)

alias = ones

def __getattr__(name: str) -> object:
    raise AttributeError(name)
'''


class ThingParam(Params):
    """Of every kind."""

    mode: str = opt("same", "how", choices=("same", "full"))
    kernel: tuple[int, ...] = required("window")
    eps: float = opt(1e-5, "small")
    axis: int | None = opt(None, "which")
    dtype: str = opt("float32", "type")
    keep: bool = opt(False, "whether")


class Thing(Operator):
    """What it does, "well"."""

    name = "thing"
    differentiable = False
    Param = ThingParam
    arguments = ("data", "bias")


class Pieces(Operator):
    """Two results of any number of arrays."""

    name = "pieces"
    differentiable = False
    variadic = "num_args"
    results = ("one", "other")


def offer(op):
    def function():
        """Generated."""

    function.__wrapped_operator__ = op
    return function


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module with two operator functions, one of them asked for already."""
    (tmp_path / "acme_arrays.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    import acme_arrays

    offered = {"thing": offer(Thing()), "pieces": offer(Pieces())}

    def attribute(name):
        if name not in offered:
            raise AttributeError(name)
        return offered[name]

    acme_arrays.__getattr__ = attribute
    acme_arrays.__dir__ = lambda: [*vars(acme_arrays), *offered]
    acme_arrays.thing = offered["thing"]
    yield acme_arrays
    del sys.modules["acme_arrays"]


def test_what_the_source_defines(module: types.ModuleType) -> None:
    lines = stubs.text(module, "acme.array:Array").split("\n")
    assert "from acme.array import Array" in lines
    assert "from decimal import Decimal as Decimal" in lines
    assert "def ones(shape: tuple[int, ...], *, like: Decimal | None=None) -> Array:" in lines
    assert "alias = ones" in lines
    assert not any("__getattr__" in line for line in lines)


def test_functions_of_operators(module: types.ModuleType) -> None:
    text = stubs.text(module, "acme.array:Array")
    assert (
        "def thing(data: Array | None = ..., bias: Array | None = ..., mode: Literal['same', 'full'] = 'same', "
        "kernel: Sequence[int] | int = ..., eps: float = ..., axis: int | None = ..., "
        "dtype: str | type | Any = 'float32', keep: bool = False, "
        "out: Array | Sequence[Array] | None = ..., name: str | None = ...) -> Array:\n"
        '    """What it does, \'well\'."""\n'
    ) in text
    assert "def pieces(*data: Array | Sequence[Array], " in text
    assert ") -> list[Array]:\n" in text
    compile(text, "stub", "exec")


def test_functions_of_symbols_take_attributes_and_give_one_symbol() -> None:
    first, _ = stubs.function("pieces", Pieces(), "Symbol")
    assert "attr: Mapping[str, str] | None = ..." in first and first.endswith("-> Symbol:")


def test_the_command_writes_partial_packages(module: types.ModuleType, site, tmp_path) -> None:
    site.add("acme", "def mx_stub_modules():\n    return {'acme_arrays': 'acme.array:Array'}\n")
    result = CliRunner().invoke(cli, ["stubs", str(tmp_path / "typings")])
    assert result.exit_code == 0, result.output
    (path,) = result.output.split()
    assert path == str(tmp_path / "typings" / "acme_arrays-stubs" / "__init__.pyi")
    assert (tmp_path / "typings" / "acme_arrays-stubs" / "py.typed").read_text() == "partial\n"
