# SPDX-License-Identifier: Apache-2.0
"""The generated kernels, built for the processor, against `mx_core.expression.evaluate`.

Everything but the hardware is checked: loads, conversions, every opcode, broadcasting, vectors and
tails, requests, and the order of the launch's arguments.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Expression, Instruction, Opcode, arity
from mx_core.expression.ir import UNUSED
from mx_core.kernels import TensorSpec
from mx_operators_cuda import Launch, kernel
from mx_operators_cuda.codegen import layout_of, write_kernel
from mx_operators_cuda.elementwise import parameters

NULL, WRITE, INPLACE, ADD = range(4)

F32, F64, F16, U8, I32, I8, I64, BOOL, I16, U16, U32, U64, BF16 = range(13)
EVERY = tuple(range(13))
#: relative tolerance: libm against NumPy's vector loops, a unit of the narrow types in stores
RTOL = {F32: 3e-6, F64: 1e-12, F16: 1e-3, BF16: 8e-3}
SPECIAL = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.5, -3.5, 7.0, -8.25, 1e9, -1e9, np.inf, -np.inf, np.nan)


@dataclass(frozen=True)
class Made:
    """A kernel's launch with the tensors it is for."""

    launch: Launch
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def make(expression: Expression, shapes: Any, inputs: Any, outputs: Any) -> Made:
    shape = np.broadcast_shapes(*shapes)
    given = tuple(TensorSpec(s, c) for s, c in zip(shapes, inputs, strict=True))
    made = tuple(TensorSpec(shape, c) for c in outputs)
    launch = kernel("k", expression, given, made)
    assert launch is not None
    return Made(launch, given, made)


def all_opcodes(code: int) -> Expression:
    """Each opcode once, on up to three inputs, an output for each."""
    steps = tuple(
        Instruction(op, I16 if op is Opcode.CAST else 0, *([*range(arity(op))] + [UNUSED] * 3)[:3])
        for op in Opcode
    )
    return Expression(3, 0, (), steps, tuple(3 + i for i in range(len(steps))))


def same(found: np.ndarray, wanted: np.ndarray, code: int, where: str, rtol: float | None = None) -> None:
    if code not in RTOL:
        np.testing.assert_array_equal(found, wanted, where)
        return
    tolerance = RTOL[code] if rtol is None else rtol
    wide = [np.asarray(x).astype(np.float64) for x in (found, wanted)]
    tiny = 0 if rtol == 0 else 1e-13 if code == F64 else 1e-6
    np.testing.assert_allclose(*wide, rtol=tolerance, atol=tiny, err_msg=where)


def values(rng: np.random.Generator, shape: tuple[int, ...], code: int) -> np.ndarray:
    dtype = dtypes.numpy_dtype(code)
    if code == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if code not in RTOL:
        limits = np.iinfo(dtype)
        wide = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.7, rng.integers(0, 9, shape).astype(dtype), wide)
    numbers = np.where(rng.random(shape) < 0.1, rng.choice(SPECIAL, shape), rng.normal(0, 2, shape))
    with np.errstate(over="ignore"):
        return numbers.astype(dtype)


@pytest.mark.parametrize("code", [F32, F64, I32, I64], ids=dtypes.name)
def test_every_opcode(code: int, emulator: Any) -> None:
    expression = all_opcodes(code)
    rng = np.random.default_rng(code)
    n = 1031
    inputs = [values(rng, (n,), code) for _ in range(3)]
    p = make(expression, [(n,)] * 3, [code] * 3, [code] * len(Opcode))
    found = emulator.run(p.launch, inputs, p.outputs)
    with np.errstate(all="ignore"):
        wanted = X.evaluate(expression, inputs)
    for op, a, b in zip(Opcode, found, wanted, strict=True):
        if op in (Opcode.GAMMA, Opcode.GAMMALN) and code in RTOL:
            inside = np.abs(inputs[0]) > 1e-6  # the sign of an overflow at a pole is not promised
            a, b = a[inside], b[inside]
        # functions whose result is a difference of large numbers, and integers from float64
        rtol = {Opcode.DIGAMMA: 2e-4, Opcode.MOD: 1e-5, Opcode.TAN: 1e-5}.get(op) if code == F32 else None
        same(a, b, code, op.name, rtol)


@pytest.mark.long
@pytest.mark.parametrize("target", EVERY, ids=dtypes.name)
def test_conversions(target: int, emulator: Any) -> None:
    """Every type to `target`, exactly: numbers that do not fit wrap or round as they should."""
    identity = Expression(1, 0, (), (), (0,))
    numbers = np.array([*SPECIAL, 0.1, 65504, 65520, 6e-8, 2.9e-8, 1 + 2**-11, 1 + 2**-8, 1 + 2**-11 + 2**-40,
                        127.5, 128, 255.99, 256, 2**31, 2**63, 2**64, -(2**63), 1e300, -1e300, 1e-300], np.float64)  # fmt: skip
    plans = []
    for code in EVERY:
        dtype = dtypes.numpy_dtype(code)
        with np.errstate(all="ignore"):
            if code in RTOL:
                x = numbers.astype(dtype)
            elif code == BOOL:
                x = np.array([True, False])
            else:
                limits = np.iinfo(dtype)
                x = np.array([0, 1, 2, 100, limits.min, limits.max, limits.max - 1], dtype)
        plans.append((x, make(identity, [x.shape], [code], [target])))
    emulator.build([p.launch.source for _, p in plans])
    for x, p in plans:
        with np.errstate(all="ignore"):
            (wanted,) = X.evaluate(identity, [x], output_dtypes=[target])
        (found,) = emulator.run(p.launch, [x], p.outputs)
        same(found, wanted, target, f"{x.dtype} to {dtypes.name(target)}", rtol=0)


SHAPES = (
    ((5, 7), (5, 7)), ((5, 7), (7,)), ((5, 1), (1, 7)), ((2, 3, 4, 5), (3, 1, 1)), ((2, 3, 4, 5), (1, 3, 1, 5)),
    ((4, 1, 3, 1), (1, 5, 1, 2)), ((6,), ()), ((), ()), ((1, 1), (1,)), ((0, 3), (3,)), ((64,), (64,)),
    ((1, 33), (17, 1)), ((2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 1, 3)),
)  # fmt: skip


@pytest.mark.parametrize("code", [F32, F16, U8], ids=dtypes.name)
def test_broadcasting_and_requests(code: int, emulator: Any) -> None:
    """Each broadcast pattern, with every request for one of two outputs."""
    expression = X.trace(lambda x, y, s: (x * 2 + y * s, x - y), 2, 1)
    rng = np.random.default_rng(1)
    plans = [make(expression, shapes, [code] * 2, [code, code]) for shapes in SHAPES]
    emulator.build([p.launch.source for p in plans])
    for shapes, p in zip(SHAPES, plans, strict=True):
        inputs = [rng.integers(0, 9, s).astype(dtypes.numpy_dtype(code)) for s in shapes]
        wanted = X.evaluate(expression, inputs, (3.0,))
        for request in (NULL, WRITE, INPLACE, ADD):
            outputs = [np.full_like(w, 3) for w in wanted]
            emulator.run(p.launch, inputs, outputs, [request, WRITE], [3.0])
            expected = {NULL: np.full_like(wanted[0], 3), ADD: wanted[0] + wanted[0].dtype.type(3)}
            np.testing.assert_array_equal(outputs[0], expected.get(request, wanted[0]), f"{shapes} {request}")
            np.testing.assert_array_equal(outputs[1], wanted[1], f"{shapes}")


def test_unaligned_arrays_and_in_place(emulator: Any) -> None:
    """Addresses that are no multiple of 16 take the scalar loop; an output may be an input."""
    expression = X.trace(lambda x, y: X.sqrt(abs(x)) + y, 2)
    x, y = np.random.default_rng(2).normal(size=(2, 103)).astype(np.float32)
    (wanted,) = X.evaluate(expression, [x[1:], y[1:]])
    p = make(expression, [(102,)] * 2, [F32] * 2, [F32])
    (found,) = emulator.run(p.launch, [x[1:], y[1:]], p.outputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    emulator.run(p.launch, [x[1:], y[1:]], [y[1:]], [INPLACE])
    np.testing.assert_allclose(y[1:], wanted, rtol=1e-6)


def test_64_bit_indices(emulator: Any) -> None:
    """What an output of 2^31 elements would get, on few elements."""

    class Wide(type(layout_of((), []))):  # type: ignore[misc]
        wide = True

    expression = X.trace(lambda x, y: x + y, 2)
    for shapes in (((3, 1), (1, 4)), ((40,), (40,))):
        plain = layout_of(np.broadcast_shapes(*shapes), shapes)
        layout = Wide(plain.sizes, plain.strides, plain.elements)
        source = write_kernel("k", expression, [F32] * 2, [F32], layout)
        assert "using Index = mx::uint64;" in source.text
        launch = Launch(source, layout.elements, parameters(expression, 1, layout))
        inputs = [np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in shapes]
        out = np.zeros(np.broadcast_shapes(*shapes), np.float32)
        emulator.run(launch, inputs, [out])
        np.testing.assert_array_equal(out, inputs[0] + inputs[1])


# ---- random expressions ----

#: opcodes that IEEE arithmetic makes exact
_STEADY = [Opcode.ADD, Opcode.SUB, Opcode.MUL, Opcode.DIV, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.NEG,
           Opcode.ABS, Opcode.SIGN, Opcode.SQUARE, Opcode.RELU, Opcode.SQRT, Opcode.FLOOR, Opcode.CEIL,
           Opcode.TRUNC, Opcode.RINT, Opcode.RECIPROCAL, Opcode.EQ, Opcode.LT, Opcode.GE, Opcode.AND,
           Opcode.XOR, Opcode.NOT, Opcode.WHERE, Opcode.ISFINITE, Opcode.ISNAN, Opcode.CAST]  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn) -> Expression:
    """Instructions of opcodes whose results are equal and not only near."""
    n_inputs, n_scalars = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    constants = tuple(draw(st.lists(st.sampled_from((0.0, 1.0, -2.5, 3.75, 1e10, np.inf)), max_size=2)))
    known = n_inputs + n_scalars + len(constants)
    steps = []
    for _ in range(draw(st.integers(0, 8))):
        op = draw(st.sampled_from(_STEADY))
        operands = [draw(st.integers(0, known - 1)) for _ in range(arity(op))]
        argument = draw(st.sampled_from(EVERY)) if op is Opcode.CAST else 0
        steps.append(Instruction(op, argument, *(operands + [UNUSED] * 3)[:3]))
        known += 1
    outputs = tuple(draw(st.lists(st.integers(0, known - 1), min_size=1, max_size=3)))
    return Expression(n_inputs, n_scalars, constants, tuple(steps), outputs)


@st.composite
def shape_lists(draw: st.DrawFn, count: int) -> list[tuple[int, ...]]:
    full = tuple(draw(st.lists(st.integers(1, 5), max_size=4)))
    return [
        tuple(size if draw(st.booleans()) else 1 for size in full)[draw(st.integers(0, len(full))) :]
        for _ in range(count)
    ]


@pytest.mark.long
@settings(
    max_examples=25 if os.environ.get("CI") else 12, derandomize=True,
    deadline=None, suppress_health_check=list(HealthCheck),
    phases=[p for p in Phase if p is not Phase.shrink],  # each example is a run of the compiler
)  # fmt: skip
@given(data=st.data())
def test_random_expressions(data: st.DataObject, emulator: Any) -> None:
    cases = []
    for _ in range(4):  # one build for several
        e = data.draw(expressions())
        shapes = data.draw(shape_lists(e.n_inputs))
        codes = [data.draw(st.sampled_from(EVERY)) for _ in shapes]
        targets = [data.draw(st.sampled_from(EVERY)) for _ in e.outputs]
        cases.append((e, codes, targets, make(e, shapes, codes, targets)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    emulator.build([p.launch.source for *_, p in cases])
    for e, codes, targets, p in cases:
        inputs = [values(rng, s.shape, c) for s, c in zip(p.inputs, codes, strict=True)]
        scalars = rng.normal(0, 3, e.n_scalars)
        with np.errstate(all="ignore"):
            wanted = X.evaluate(e, inputs, scalars, output_dtypes=targets)
        found = emulator.run(p.launch, inputs, p.outputs, scalars=scalars)
        for a, b, code in zip(found, wanted, targets, strict=True):
            same(a, b, code, f"{e}\n{codes} -> {targets}\n{p.launch.source.text}", rtol=0)
