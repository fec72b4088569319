# SPDX-License-Identifier: Apache-2.0
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mx_core
from mx_core import expression as X
from mx_core.errors import FileFormatError

SAMPLE = X.trace(lambda x, y, s: (X.where(x > y, x * s, X.tanh(y)), x + 0.5), 2, 1)


def test_serialised_form_round_trips() -> None:
    assert X.Expression.parse(SAMPLE.serialized) == SAMPLE


def test_opcodes_equal_those_of_the_header() -> None:
    header = (Path(mx_core.get_include()) / "mx_core" / "expression.h").read_text()
    declared = {
        name: (int(value), int(arity))
        for name, value, arity in re.findall(r"X\((\w+), (\d+), (\d)\)", header)
    }
    assert declared == {op.name: (op.value, X.arity(op)) for op in X.Opcode}


@settings(deadline=None)
@given(st.integers(0, 3), st.integers(0, 2**32 - 1), st.data())
def test_corrupt_bytes_are_refused_or_equal(width: int, value: int, data: st.DataObject) -> None:
    raw = bytearray(SAMPLE.serialized)
    at = data.draw(st.integers(0, len(raw) - 4))
    raw[at : at + width] = struct.pack("<I", value)[:width]
    try:
        X.Expression.parse(bytes(raw))
    except FileFormatError as error:
        assert "expression" in str(error)


@pytest.mark.parametrize("length", [0, 10, len(SAMPLE.serialized) - 1])
def test_truncated_bytes_are_refused(length: int) -> None:
    with pytest.raises(FileFormatError, match="bytes"):
        X.Expression.parse(SAMPLE.serialized[:length])


def test_text_shows_the_program() -> None:
    assert str(X.trace(lambda x, s: s * x * x + 1, 1, 1)) == (
        "t0 = mul(s0, x0)\nt1 = mul(t0, x0)\nt2 = add(1, t1)\nreturn t2"
    )


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [((0,), 0), ((2, 12), 0), ((0, 1), 1), ((3, 5), 4), ((4, 6), 6), ((6, 0), 1), ((7,), 4)],
)
def test_compute_type(inputs: tuple[int, ...], expected: int) -> None:
    assert X.compute_dtype(inputs) == expected


def test_constants_of_another_sign_are_another_expression() -> None:
    plus, minus = (X.trace(lambda x, zero=zero: x / zero, 1) for zero in (0.0, -0.0))
    assert plus != minus and len({plus, minus}) == 2
    assert plus == X.trace(lambda x: x / 0.0, 1) and plus != "x / 0.0"
