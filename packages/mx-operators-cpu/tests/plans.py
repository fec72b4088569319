# SPDX-License-Identifier: Apache-2.0
"""Runs plans over NumPy arrays and compares them with references."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mx_core import _native, dtypes, operators
from mx_core.context import cpu
from mx_core.expression import Expression, evaluate
from mx_core.kernels import KernelCall, TensorSpec
from mx_core.operator import Operator, ReferenceContext
from mx_core.operator.infer import infer_shapes, infer_types
from mx_core.plugins.specs import resolve
from mx_operators_cpu.library import native
from mx_operators_cpu.register import VECTOR_KERNELS, qualified

NULL, WRITE, INPLACE, ADD = range(4)
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
RTOL = {"float32": 2e-6, "float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2}


def array(rng: np.random.Generator, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
    """Random numbers of a type; small integers."""
    kind = dtypes.numpy_dtype(dtypes.code(dtype))
    if dtype in FLOATS:
        return rng.standard_normal(shape).astype(kind)
    low = -9 if kind.kind == "i" else 0
    return rng.integers(low, 2 if dtype == "bool" else 9, shape).astype(kind)


def _buffers(arrays: Sequence[np.ndarray]) -> list[Any]:
    """Arrays as the runner takes them: bfloat16 has no buffer format of its own."""
    return [(a.view(np.uint16), dtypes.code(a.dtype)) if a.dtype.name == "bfloat16" else a for a in arrays]


def run(
    plan: object, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], req: Sequence[int], **more: Any
) -> None:
    """Runs a plan once."""
    _native.run_plan(plan, _buffers(inputs), _buffers(outputs), req, **more)


class _Plan(ctypes.Structure):
    """The first fields of `mx_plan`."""

    _fields_ = (
        ("head", ctypes.c_uint32 * 2), ("flags", ctypes.c_uint32), ("n_scratch", ctypes.c_uint32),
        ("scratch_bytes", ctypes.POINTER(ctypes.c_size_t)),
    )  # fmt: skip


def scratch_bytes(plan: object) -> int:
    """Scratch memory of a plan, of all sections."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    pointer = pointer_of(plan, (_native.capsule_name(plan) or "").encode())
    fields = _Plan.from_address(pointer)
    return sum(fields.scratch_bytes[i] for i in range(fields.n_scratch))


def specs(arrays: Sequence[np.ndarray]) -> tuple[TensorSpec, ...]:
    """Signatures of arrays."""
    return tuple(TensorSpec(a.shape, dtypes.code(a.dtype)) for a in arrays)


def close(got: np.ndarray, want: np.ndarray, rtol: float | None = None, note: str = "") -> None:
    """Integers equal, floating point within a few units of its type."""
    assert got.dtype == want.dtype and got.shape == want.shape, note
    name = want.dtype.name
    if name not in RTOL:
        np.testing.assert_array_equal(got, want, err_msg=note)
        return
    rtol = RTOL[name] if rtol is None else rtol
    scale = float(np.nanmax(np.abs(np.where(np.isfinite(want), want, 0).astype(np.float64)), initial=1.0))
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=rtol * scale, err_msg=note
    )


def evaluated(
    expression: Expression,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.dtype],
    scalars: Sequence[float] = (),
    *,
    req: int = WRITE,
    threads: int = 1,
) -> list[np.ndarray]:
    """The expression by its native plan, over outputs that held 3."""
    shape = np.broadcast_shapes(*(x.shape for x in inputs))
    made = [np.full(shape, 3).astype(dtype) for dtype in outputs]
    signatures = [[(a.shape, dtypes.code(a.dtype)) for a in arrays] for arrays in (inputs, made)]
    run(
        native.expression_plan(expression.serialized, *signatures),
        inputs,
        made,
        [req] * len(made),
        scalars=scalars,
        threads=threads,
    )
    return made


def same_as_numpy(
    expression: Expression, inputs: Sequence[np.ndarray], scalars: Sequence[float] = (), **more: Any
) -> None:
    """Native plan and NumPy evaluation agree."""
    with np.errstate(all="ignore"):
        want = evaluate(expression, inputs, scalars)
    got = evaluated(expression, inputs, [w.dtype for w in want], scalars)
    for g, w in zip(got, want, strict=True):
        close(g, w, note=str(expression), **more)


def call_of(op: Operator, p: Any, inputs: Sequence[np.ndarray], is_train: bool = True) -> KernelCall:
    """What the framework would ask for these arrays."""
    shapes = infer_shapes(op, p, [x.shape for x in inputs])[1]
    types = infer_types(op, p, [dtypes.code(x.dtype) for x in inputs])[1]
    outputs = tuple(TensorSpec(tuple(s), t) for s, t in zip(shapes, types, strict=True))
    return KernelCall(op, p, specs(inputs), outputs, cpu(0), is_train)


def plan_of(call: KernelCall) -> Any:
    """The plan of loops, or None when it declines."""
    make = dict(VECTOR_KERNELS)[call.op.name]
    return resolve(qualified(make))(call)


def verify(
    name: str,
    attrs: Mapping[str, Any],
    inputs: Sequence[np.ndarray],
    *,
    rtol: float | None = None,
    is_train: bool = True,
    random: tuple[int, int] = (0, 0),
    threads: int = 1,
) -> None:
    """Compares an operator's plan with its reference, written, added and left alone."""
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    context = ReferenceContext(is_train, p.scalars, *random)
    call = call_of(op, p, inputs, is_train)
    plan = plan_of(call)
    assert plan is not None, f"{name} declined"
    with np.errstate(all="ignore"):
        made = op.reference(p, [x.copy() for x in inputs], context)
    n = len(call.outputs)
    for req in (WRITE, ADD, NULL):
        given = [x.copy() for x in inputs]
        before = [np.ones(s.shape, dtypes.numpy_dtype(s.dtype)) for s in call.outputs]
        outputs = [b.copy() for b in before]
        run(plan, given, outputs, [req] * n, is_train=is_train, scalars=p.scalars, random_key=random[0],
            random_offset=random[1], threads=threads)  # fmt: skip
        for got, old, want in zip(outputs, before, made[:n], strict=True):
            want = np.asarray(want)
            target = {WRITE: want, NULL: old, ADD: (old + want).astype(want.dtype)}[req]
            close(got, target.reshape(got.shape), rtol, f"{name} {attrs} request {req}")
        states = [given[i] for i in op.mutated_inputs(p)]
        for got, want in zip(states, made[n:], strict=True):
            close(got, np.asarray(want), rtol, f"{name} {attrs} states")
