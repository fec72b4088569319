# SPDX-License-Identifier: Apache-2.0
"""Native expressions equal their NumPy evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import ADD, FLOATS, INTEGERS, NULL, array, close, evaluated, run, same_as_numpy

from mx_core import dtypes
from mx_core import expression as X
from mx_core.errors import ArgumentError, NoKernelError, ShapeError
from mx_core.expression import Expression, Instruction, Opcode, arity, evaluate, trace
from mx_operators_cpu.library import native

LIBRARY_DIFFERS = {
    Opcode.GAMMA,
    Opcode.GAMMALN,
    Opcode.DIGAMMA,
    Opcode.TANH,
}  # in the last digit, seen by integers
SPECIAL = (
    0.0,
    -0.0,
    1,
    -1,
    2,
    -2,
    0.5,
    -0.5,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    1e30,
    -1e30,
    88.7,
    89,
    -104,
    3,
    255,
    65520,
)


def values(rng: np.random.Generator, dtype: str, n: int = 257) -> np.ndarray:
    """Ordinary and special numbers of a type."""
    kind = dtypes.numpy_dtype(dtypes.code(dtype))
    if dtype in FLOATS:
        with np.errstate(all="ignore"):
            return np.concatenate([SPECIAL, 3 * rng.standard_normal(n - len(SPECIAL))]).astype(kind)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    limits = np.iinfo(kind)
    some = rng.integers(limits.min, limits.max, n, dtype=kind, endpoint=True)
    some[:4], some[4:60] = [0, 1, limits.min, limits.max], rng.integers(0, 7, 56)
    return some


def single(opcode: Opcode, argument: int = 0) -> Expression:
    n = arity(opcode)
    return Expression(n, 0, (), (Instruction(opcode, argument, *range(n)),), (n,))


def equal(got: np.ndarray, want: np.ndarray) -> None:
    """Bit for bit, but for NaN."""
    assert got.dtype == want.dtype
    same = (got == want) | ((got != got) & (want != want))
    assert same.all(), (got[~same][:4], want[~same][:4])


@pytest.mark.parametrize("opcode", [o for o in Opcode if o is not Opcode.CAST])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_every_opcode(opcode: Opcode, dtype: str, rng: np.random.Generator) -> None:
    x = values(rng, dtype)
    inputs = [x, rng.permutation(x), rng.permutation(x)][: arity(opcode)]
    if opcode in LIBRARY_DIFFERS and dtype not in FLOATS:
        inputs[0] = np.clip(inputs[0], 0, 8).astype(x.dtype)
    expression = single(opcode)
    with np.errstate(all="ignore"):
        (want,) = evaluate(expression, inputs)
    (got,) = evaluated(expression, inputs, [want.dtype])
    if dtype not in FLOATS:
        np.testing.assert_array_equal(got, want)
        return
    rtol = {"float32": 5e-7, "float64": 1e-13, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    least = {"float32": 2e-38, "float64": 1e-14, "float16": 6e-8, "bfloat16": 2e-38}[dtype]
    g, w = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(g, w, rtol=rtol, atol=least)


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS, "bool"])
@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS, "bool"])
def test_casts_are_exact(source: str, target: str, rng: np.random.Generator) -> None:
    x, code = values(rng, source), dtypes.code(target)
    with np.errstate(all="ignore"):
        (inside,) = evaluate(single(Opcode.CAST, code), [x])
        (stored,) = evaluate(Expression(1, 0, (), (), (0,)), [x], output_dtypes=[code])
    equal(evaluated(single(Opcode.CAST, code), [x], [x.dtype])[0], inside)
    equal(evaluated(Expression(1, 0, (), (), (0,)), [x], [stored.dtype])[0], stored)


SHAPES = [
    ((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 4), (3, 1)), ((5, 7, 9), (7, 1)), ((2, 3, 700), (3, 1)),
    ((2, 3, 700), (700,)), ((1,), (1,)), ((), ()), ((0, 3), (3,)), ((1000, 10), (10,)), ((1000, 10), (1000, 1)),
    ((300, 700), (300, 1)), ((4, 1, 5), (3, 1)), ((1, 6), (6, 1)), ((2, 1, 3, 1, 4), (5, 1, 6, 1)), ((3, 1, 600), (1, 4, 1)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize(
    "types", [("float32", "float32"), ("float16", "float32"), ("int8", "int32"), ("float64", "int64")]
)
def test_broadcasting(
    shapes: tuple[tuple[int, ...], ...], types: tuple[str, ...], rng: np.random.Generator
) -> None:
    expression = trace(lambda x, y, s: (x * y + s, (x - y) * 2 * x, y), 2, 1)
    same_as_numpy(expression, [array(rng, s, t) for s, t in zip(shapes, types, strict=True)], (3.0,))


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
def test_large_arrays(threads: int, rng: np.random.Generator) -> None:
    expression = trace(lambda x, y: (X.exp(x) * 0.5 + y, X.tanh(y)), 2)
    x, y = array(rng, (3_000_001,)), array(rng, (3_000_001,))
    want = evaluate(expression, [x, y])
    for got, w in zip(evaluated(expression, [x, y], [x.dtype] * 2, threads=threads), want, strict=True):
        close(got, w)
    half = evaluated(
        trace(lambda a, b: a + b, 2),
        [x.astype(np.float16), x[:1].astype(np.float16)],
        [np.dtype(np.float16)],
        threads=threads,
    )
    close(half[0], (x.astype(np.float16) + x[:1].astype(np.float16)))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
def test_requests(dtype: str, rng: np.random.Generator) -> None:
    x = array(rng, (40, 50), dtype)
    for function in (lambda a: a * 2 + 1, lambda a: a, lambda a: 5.0):  # type: ignore[misc]
        expression = trace(function, 1)
        (want,) = evaluate(expression, [x])
        close(evaluated(expression, [x], [x.dtype], req=ADD)[0], (want + np.full_like(x, 3)).astype(x.dtype))
        close(evaluated(expression, [x], [x.dtype], req=NULL)[0], np.full_like(x, 3))


@pytest.mark.parametrize("size", [7, 5000, 2_000_000])
@pytest.mark.parametrize("shared", [(0, 1), (1, 0)])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x + y, x * y - x),
        lambda x, y: (x + 1, x),  # outputs that are inputs
        lambda x, y: (y * x, y),
        lambda x, y: (y, x),
    ],
)
def test_outputs_may_share_memory_with_inputs(
    size: int, shared: tuple[int, int], function: Callable[..., Any], rng: np.random.Generator
) -> None:
    """Whatever the expression reads after it has written."""
    expression = trace(function, 2)
    arrays = [array(rng, (size,)), array(rng, (size,))]
    want = evaluate(expression, arrays)
    specs = [((size,), 0)] * 2
    run(
        native.expression_plan(expression.serialized, specs, specs),
        arrays,
        [arrays[i] for i in shared],
        [2, 2],
        threads=2,
    )
    for i, w in zip(shared, want, strict=True):
        close(arrays[i], w)


_UNARY: list[Callable[..., Any]] = [
    X.relu,
    X.square,
    abs,
    X.sign,
    X.floor,
    X.sigmoid,
    X.tanh,
    X.logical_not,
    lambda v: X.cast(v, "int8"),
    lambda v: -v,
]
_BINARY: list[Callable[..., Any]] = [
    X.maximum,
    X.minimum,
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a < b,
    lambda a, b: X.where(a, b, a),
]
#: places in both lists, one behind the other: what rounds, and what jumps and so shows every rounding
_ROUNDING, _JUMPING = {5, 6}, {3, 4, 7, 8, 15, 16}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_a_function_found_in_an_expression(dtype: str, rng: np.random.Generator) -> None:
    """However it is written down, and whoever else reads its parts."""
    c = 0.5**0.5
    forms: list[Callable[[Any], Any]] = [
        lambda x: 0.5 * x * (1 + X.erf(x * c)),
        lambda x: (X.erf(c * x) + 1) * (x * 0.5),
        lambda x: 0.5 * x * (1 + X.erf(x * 0.7)),
        lambda x: 0.5 * x * (2 + X.erf(x * c)),
        lambda x: 0.5 * (x + 1) * (1 + X.erf(x * c)),
        lambda x: (0.5 * x * (1 + X.erf(x * c)), X.erf(x * c), 0.5 * x),
    ]
    x = array(rng, (700,), dtype)
    for form in forms:
        same_as_numpy(trace(form, 1), [x])
    same_as_numpy(trace(lambda x, y: y + 0.5 * x * (1 + X.erf(x * c)), 2), [x, x])


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_random_expressions(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 3))
    steps = data.draw(
        st.lists(
            st.tuples(st.integers(0, 16), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=14
        )
    )
    n_outputs = data.draw(st.integers(1, 3))

    def function(*given: Any) -> list[Any]:
        made: list[Any] = [*given, 1.5]
        rounded: set[int] = set()  # floats whose last digit is not known
        for kind, a, b in steps:
            places = a % (n + 1) if b % 3 == 0 else a % len(made), b % len(made)
            unsure = dtype.startswith("float") and not rounded.isdisjoint(places)
            if unsure and kind in _JUMPING:
                kind = 0
            if unsure or kind in _ROUNDING:
                rounded.add(len(made))
            operands = made[places[0]], made[places[1]]
            if not any(isinstance(o, X.Traced) for o in operands):
                operands = (given[0], operands[1])
            first = operands[0] if isinstance(operands[0], X.Traced) else operands[1]
            made.append(_UNARY[kind](first) if kind < len(_UNARY) else _BINARY[kind - len(_UNARY)](*operands))
        return made[-n_outputs:]

    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    full = data.draw(st.sampled_from([(6,), (3, 5), (4, 2, 3), (2, 600)]))
    shapes = [tuple(e if rng.integers(2) else 1 for e in full) for _ in range(n)]
    dtype = data.draw(st.sampled_from(["int32", "int64", "int8", "float64", "float32"]))
    inputs = [array(rng, s, dtype) for s in shapes]
    if dtype.startswith("float"):
        inputs = [np.round(x) for x in inputs]
    expression = trace(function, n, 0)
    same_as_numpy(expression, inputs, rtol=1e-4 if dtype.startswith("float") else None)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "uint8", "bool"])
@pytest.mark.parametrize("n", [1, 65_536, 9_000_001])
def test_copies_keep_bits(dtype: str, n: int) -> None:
    """Of every NaN, too."""
    kind = dtypes.numpy_dtype(dtypes.code(dtype))
    bits = np.arange(n, dtype=f"u{kind.itemsize}")
    x = (bits % 2 if dtype == "bool" else bits << 52 | 1 if dtype == "float64" else bits).view(kind)
    (got,) = evaluated(trace(lambda data: data, 1), [x], [x.dtype])
    np.testing.assert_array_equal(got.view(bits.dtype), x.view(bits.dtype))


def test_refusals() -> None:
    add = trace(lambda x, y: x + y, 2)
    with pytest.raises(ShapeError, match="does not broadcast"):
        native.expression_plan(add.serialized, [((3,), 0), ((4,), 0)], [((4,), 0)])
    with pytest.raises(ArgumentError, match="cut short"):
        native.expression_plan(add.serialized[:-6], [((3,), 0)] * 2, [((3,), 0)])
    with pytest.raises(NoKernelError):
        native.expression_plan(add.serialized, [((3,), 13)] * 2, [((3,), 13)])
    unknown = add.serialized[:32] + b"\x78" + add.serialized[33:]  # the first instruction's opcode
    with pytest.raises(NoKernelError, match="opcode 120"):
        native.expression_plan(unknown, [((3,), 0)] * 2, [((3,), 0)])
    plan = native.expression_plan(add.serialized, [((3,), 0)] * 2, [((3,), 0)])
    with pytest.raises(ShapeError, match="12 bytes"):
        run(plan, [np.zeros(3, np.float32), np.zeros(4, np.float32)], [np.zeros(3, np.float32)], [1])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_powers_of_integers_are_exact_and_wrap(dtype: str) -> None:
    kind = np.dtype(dtype)
    base = np.array([3, 3, 2, 7, -3, 1, -1, 5, 94906267, 0, 2], np.int64).astype(kind)
    exponent = np.array([34, 41, 31, 0, 21, 100, 63, 3, 2, 0, 64], np.int64).astype(kind)
    expected = [int(b) ** int(e) % 2 ** (8 * kind.itemsize) for b, e in zip(base, exponent, strict=True)]
    expected = np.array(expected, np.uint64).astype(kind)
    np.testing.assert_array_equal(evaluated(trace(X.power, 2), [base, exponent], [base.dtype])[0], expected)
    np.testing.assert_array_equal(evaluate(trace(X.power, 2), [base, exponent])[0], expected)


def test_negative_exponents_of_integers_are_truncated() -> None:
    base, exponent = np.array([1, -1, -1, 2, -5, 0], np.int64), np.array([-3, -3, -2, -1, -2, -1], np.int64)
    expected = [1, -1, 1, 0, 0, np.iinfo(np.int64).min]
    np.testing.assert_array_equal(evaluated(trace(X.power, 2), [base, exponent], [base.dtype])[0], expected)
    np.testing.assert_array_equal(evaluate(trace(X.power, 2), [base, exponent])[0], expected)
