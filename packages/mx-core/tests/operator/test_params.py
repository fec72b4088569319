# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from typing import Any

import pytest

from mx_core.errors import ArgumentError, DTypeError, PluginError
from mx_core.operator import Params, Shape, opt, required


class WindowParam(Params):
    """A made-up operator's parameters."""

    kernel: Shape = required("window, one int per axis", lower=1)
    count: int = opt(3, "how many", lower=0, upper=10)
    slope: float = opt(0.25, "slope", runtime=True)
    no_bias: bool = opt(False, "leave out the bias")
    axis: int | None = opt(None, "axis")
    kind: str = opt("max", "which", choices=("max", "avg"))


def test_values_and_text_mean_the_same() -> None:
    text = WindowParam.parse({"kernel": "(3, 3)", "count": "4", "no_bias": "True", "axis": "None"})
    assert text == WindowParam(kernel=(3, 3), count=4, no_bias=True, axis=None)
    assert WindowParam(kernel=3).kernel == (3,)


def test_fields_say_what_may_be_left_out_and_be_none() -> None:
    fields = WindowParam.fields()
    assert [f.name for f in fields if f.required] == ["kernel"]
    assert [f.name for f in fields if f.takes_none] == ["axis"]


def test_only_given_parameters_are_written_back() -> None:
    p = WindowParam(kernel=(3, 2), slope=0.5)
    assert p.attrs() == {"kernel": "(3, 2)", "slope": "0.5"}
    assert WindowParam.parse(p.attrs()) == p
    assert set(p.attrs_all()) == {"kernel", "count", "slope", "no_bias", "axis", "kind"}


def test_runtime_parameters_are_not_part_of_the_key() -> None:
    a, b = WindowParam(kernel=(2,), slope=1), WindowParam(kernel=(2,), slope=2)
    assert a.key == b.key and a != b
    assert (a.scalars, b.scalars) == ((1.0,), (2.0,))
    assert a.with_scalars((2.0,)) == b


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"\[Window\] required parameter kernel of type Shape is not given"),
        ({"kernal": 3}, "cannot find argument 'kernal', possible arguments: kernel, .*mean 'kernel'"),
        ({"kernel": 0}, r"kernel: expected at least 1, got \(0,\)"),
        ({"kernel": 1, "count": 11}, "count: expected at most 10, got 11"),
        ({"kernel": "(1, x)"}, r"kernel: expected Shape, got '\(1, x\)'"),
        ({"kernel": 1, "kind": "sum"}, "kind: expected one of 'max', 'avg', got 'sum'"),
        ({"kernel": 1, "no_bias": "maybe"}, "no_bias: expected bool, got 'maybe'"),
        ({"kernel": 1, "count": 1.5}, "count: expected int, got 1.5"),
        ({"kernel": 1, "count": None}, "count: expected int, got None"),
        ({"kernel": 1, "count": [3]}, r"count: expected int, got \[3\]"),
        ({"kernel": 1, "slope": "much"}, "slope: expected float, got 'much'"),
        ({"kernel": "((((", "count": 1}, "kernel: expected Shape"),
    ],
)
def test_bad_parameters_are_explained(values: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        WindowParam.parse(values, op="Window")


def test_node_is_named() -> None:
    with pytest.raises(ArgumentError, match=r"\[Window 'w0'\]"):
        WindowParam.parse({}, op="Window", node="w0")


def test_parameters_are_immutable() -> None:
    with pytest.raises(AttributeError):
        WindowParam(kernel=1).count = 3  # type: ignore[misc]


def test_numpy_types_name_an_element_type() -> None:
    import numpy as np

    class CastParam(Params):
        dtype: str = required("target type")

    assert CastParam(dtype=np.float16).dtype == "float16"
    assert CastParam(dtype=np.dtype("int8")).dtype == "int8"
    assert CastParam(dtype="f4").attrs() == {"dtype": "float32"}
    with pytest.raises(DTypeError, match=r"^\[\w+\] dtype: unknown element type 'foo'; known: float32, "):
        CastParam(dtype="foo")


def test_parameters_that_were_refused_can_be_shown() -> None:
    refused = WindowParam.__new__(WindowParam)  # as a debugger finds them in a traceback
    assert repr(refused) == "WindowParam()"


class _Numbers(Params):
    values: tuple[float, ...] = opt((), "numbers")


@pytest.mark.parametrize(
    "values", [(), (1.0,), (0.1, -0.0, 1e300), (float("inf"), float("-inf"), 1e-320), (2.5, float("nan"))]
)
def test_tuples_of_any_numbers_come_back_from_text(values: tuple[float, ...]) -> None:
    text = _Numbers.parse({"values": values}, op="x").attrs()["values"]
    assert repr(_Numbers.parse({"values": text}, op="x").values) == repr(values)


@pytest.mark.parametrize("text", ["(1,,2)", "(,)", "(1", "(one)", "(1, (2, 3))"])
def test_text_that_is_no_tuple_of_numbers(text: str) -> None:
    with pytest.raises(ArgumentError, match="values: expected tuple of float"):
        _Numbers.parse({"values": text}, op="x")


class UpdateParam(Params):
    """What updates share."""

    wd: float = opt(0.0, "weight decay", runtime=True)
    clip: float = opt(-1.0, "limit", runtime=True)


def names(cls: type[Params]) -> list[str]:
    return [info.name for info in cls.fields()]


def test_parameters_are_inherited() -> None:
    class Behind(UpdateParam):
        clip: float = opt(2.0, "limit", runtime=True)  # stays where it was
        lr: float = required("learning rate", runtime=True)

    class First(UpdateParam, leading=True):
        lr: float = required("learning rate", runtime=True)

    assert names(Behind) == ["wd", "clip", "lr"] and names(First) == ["lr", "wd", "clip"]
    assert Behind(lr=1).scalars == (0.0, 2.0, 1.0) and First(lr=1).scalars == (1.0, 0.0, -1.0)
    assert names(UpdateParam) == ["wd", "clip"]


def test_members_that_are_no_parameters() -> None:
    class Held(Params):
        size: int

        def __init__(self, size: int) -> None:
            self._hold(size=size, key=("held", size))

    held = Held(3)
    assert held.size == 3 and held == Held(3) and held != Held(4) and held.attrs_all() == {}
    with pytest.raises(AttributeError, match="cannot assign to parameter 'size'"):
        held.size = 4


class _Signed(Params):
    """Numbers of which the sign of zero may matter."""

    fixed: float = opt(0.0, "a number")
    several: tuple[float, ...] = opt((), "numbers")
    running: float = opt(0.0, "a number", runtime=True)


NAN = float("nan")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"fixed": 0.0}, {"fixed": -0.0}),
        ({"running": 0.0}, {"running": -0.0}),
        ({"several": (1.0, 0.0)}, {"several": (1.0, -0.0)}),
        ({"several": (0.0,)}, {"several": (NAN,)}),
        ({"running": 0.0}, {"running": NAN}),
    ],
)
def test_zero_and_minus_zero_are_different_parameters(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert _Signed(**one) != _Signed(**other) and len({_Signed(**one), _Signed(**other)}) == 2
    assert _Signed(**one) == _Signed(**one) and hash(_Signed(**one)) == hash(_Signed(**one))
    same = _Signed(**{name: float("nan") if value is NAN else value for name, value in other.items()})
    assert same == _Signed(**other) and hash(same) == hash(_Signed(**other))


def test_run_time_values_are_replaced_by_those_of_another_sign() -> None:
    zero = _Signed()
    assert zero.with_scalars((0.0,)) is zero
    assert str(zero.with_scalars((-0.0,)).running) == "-0.0"
    with pytest.raises(ValueError, match="zip"):
        zero.with_scalars((0.0, 1.0))


def test_copies_are_equal_in_other_processes_too() -> None:
    p = WindowParam(kernel=(2,))
    hash(p)
    assert copy.copy(p) == p and not {"_hash", "_told_apart"} & vars(copy.copy(p)).keys()


def declared(source: str) -> None:
    head = "import dataclasses\nfrom typing import ClassVar\nfrom mx_core.operator import Params, opt, required\n"
    text = f"{head}class SteepParam(Params):\n    {source}"
    exec(compile(text, "acme.py", "exec", dont_inherit=True), {"__name__": "acme"})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "k: float = 2.0",
            r"acme\.SteepParam\.k: expected opt\(\.\.\.\) or required\(\.\.\.\), got 2\.0; "
            r"write k: float = opt\(2\.0, 'what it is'\)",
        ),
        ("k: int", r"got nothing; write k: int = required\('what it is'\)"),
        ("k: float = dataclasses.field(default=2.0)", r"write k: float = opt\("),
        (
            "k = opt(2.0, 'steepness')",
            r"acme\.SteepParam\.k: a parameter needs a type; write k: float = opt\(",
        ),
        ("k = 2.0", "a parameter needs a type"),
    ],
)
def test_what_looks_like_a_parameter_and_is_none_is_refused(source: str, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        declared(source)


@pytest.mark.parametrize(
    "source",
    ["_k: float = 2.0", "_k = 2.0", "k: ClassVar[float] = 2.0", "op_name = 'steep'", "def k(self): pass"],
)
def test_other_members_are_left_alone(source: str) -> None:
    declared(source)
