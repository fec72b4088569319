# SPDX-License-Identifier: Apache-2.0
"""Sensible applications of any operator, made from its declaration and a number.

Parameters, shapes and element types are drawn as for fuzzing, or taken from a recorded case; what the
operator itself refuses is drawn again. Backward operators get what the gradient of an application of
their forward operator gives them.
"""

from __future__ import annotations

import math
import os
import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import random_calls

from mx_core import dtypes, operators
from mx_core.errors import MXNetError
from mx_core.kernels import TensorSpec
from mx_core.operator import Operator, gradient_of, infer_shapes, infer_types
from mx_core.testing.case import Case
from testkit import oracle

#: which applications the default run looks at; another number looks at others
SEED = int(os.environ.get("MX_TEST_SEED", "0") or 0)
ATTEMPTS = 40
#: widths beside every vector's: empty, one, less than a vector, one more than some
EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 31, 33, 65)
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int32", "int64", "uint8", "int8", "bool")
#: operators that divide differences by a number that may be small -> that number's position among the inputs:
#: the differences are rounded as what is subtracted, so the absolute tolerance is divided as well
DIVIDED_BY = {"_backward_LayerNorm": 4}
#: parameters with which a result is not all rounding: with no memory a mean square is the square of the mean
SOUND: dict[str, Callable[[Any], bool]] = {
    "rmspropalex_update": lambda p: 0.1 <= p.gamma1 <= 0.95,
    # corrections of the moments' start divide by 1 − betaᵗ
    "ftml_update": lambda p: p.lr > 0 and p.t > 0 and 0 <= p.beta1 < 1 and 0 <= p.beta2 < 1,
}
#: inputs that belong together, made of what was drawn: a mean square is larger than the square of the mean
TOGETHER: dict[str, Callable[..., tuple[Any, ...]]] = {
    "rmspropalex_update": lambda weight, grad, n, g, delta: (weight, grad, n * n + g * g + 1, g, delta),
    # rows that are independent: others have factors, but no gradient
    "_linalg_gelqf": lambda a: (a + 4 * a.shape[-2] * np.eye(*a.shape[-2:]) if a.ndim > 1 else a,),
}
#: what is in an array; integers where an input may be an index
CONTENTS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "any": lambda rng, shape: rng.normal(size=shape),
    "fraction": lambda rng, shape: rng.uniform(0.05, 0.95, shape),
    "index": lambda rng, shape: rng.integers(0, 4, shape),
    "one": lambda rng, shape: np.ones(shape),
    "zero": lambda rng, shape: np.zeros(shape),
}


def steepness(case: Case) -> float:
    """Factor of the absolute tolerance: 1, or what the largest rounding is multiplied with."""
    position = DIVIDED_BY.get(case.op.name)
    divisors = np.abs(case.inputs[position].astype(np.float64)) if position is not None else np.ones(1)
    return float(np.max(1 / divisors[divisors > 0], initial=1.0))


def all_operators() -> list[str]:
    """Names, sorted."""
    return sorted({operators.get(name).name for name in operators.names()})


def first_shape(rng: random.Random, most: int) -> tuple[int, ...]:
    """Up to five axes and `most` elements; one in ten is empty."""
    empty = rng.random() < 0.1
    shape: list[int] = []
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4, 4, 5))):
        extent = rng.choice(EXTENTS if empty else EXTENTS[1:])
        shape.append(
            extent if math.prod(max(e, 1) for e in shape) * extent <= most else rng.choice((1, 2, 3))
        )
    rng.shuffle(shape)
    return tuple(shape) if math.prod(max(e, 1) for e in shape) <= 4 * most else (most,)


def make(
    op: Operator,
    number: int,
    dtype: str,
    *,
    most: int = 2048,
    smooth: bool = False,
    finite: bool = True,
) -> Case | None:
    """Application `number`; None when nothing that was drawn is accepted.

    Parameters
    ----------
    dtype : of the first input; the others' are inferred
    most : elements of the first input, about
    smooth : no two numbers that a gradient is taken of are equal, none is 0
    finite : results have no infinities or NaN
    """
    if op.floating_only and dtype not in FLOATS:
        return None
    for attempt in range(ATTEMPTS):
        rng = random.Random(f"{op.name} {dtype} {number} {attempt}")
        case = None
        if op.backward_of is not None and attempt < 3:
            case = _of_gradient(
                rng, op, make(op.backward_of, number + attempt, dtype, most=most, smooth=smooth)
            )
        elif (number + attempt) % 3 == 2:
            case = _recorded(rng, op, dtype)
        if case is None:
            case = _draw(rng, op, dtype, most, smooth)
        if case is None:
            continue
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Mean of empty slice|Degrees of freedom", RuntimeWarning)
            try:
                results = case.reference()
            except MXNetError:  # refused; whether rightly, the fuzzer judges
                continue
        if not finite or all(_is_finite(x) for x in results):
            return case
    return None


def _is_finite(array: Any) -> bool:
    kind = array.dtype.kind
    return kind in "iub" or bool(np.isfinite(array.astype(np.float64)).all())


def _recorded(rng: random.Random, op: Operator, dtype: str) -> Case | None:
    known = oracle.applications().get(op.name)
    if not known:
        return None
    case = rng.choice(known)
    arrays = oracle.inputs(case)
    names = [dtype if x.dtype == np.float32 else x.dtype.name for x in arrays]
    if dtype in INTEGERS:
        arrays = [np.nan_to_num(x) for x in arrays]
    with np.errstate(all="ignore"):
        given = [x.astype(dtypes.numpy_dtype(dtypes.code(n))) for x, n in zip(arrays, names, strict=True)]
    return _case(op, case["attrs"], given, rng.random() < 0.8)


def _of_gradient(rng: random.Random, op: Operator, forward: Case | None) -> Case | None:
    """The application of `op` in the gradient of a case of the operator it belongs to."""
    if forward is None:
        return None
    gradient = gradient_of(forward.op, forward.params)
    for i, node in enumerate(gradient.nodes):
        if node.op != op.name or any(entry.kind == "node" and entry.index >= i for entry in node.inputs):
            continue
        with np.errstate(all="ignore"):
            results = forward.reference()
        heads = [_array(rng, x.shape, dtypes.name(dtypes.code(x.dtype)), "any") for x in results]
        table = {"out_grad": heads, "input": forward.inputs, "output": results}
        if all(entry.kind in table for entry in node.inputs):
            given = [table[entry.kind][entry.index] for entry in node.inputs]
            return _case(op, node.params, given, forward.is_train)
    return None


def _case(op: Operator, params: Any, arrays: Sequence[Any], is_train: bool) -> Case | None:
    """An application to given arrays, or None where inference refuses it."""
    try:
        attrs = params if isinstance(params, dict) else None
        if attrs is not None and op.variadic is not None:
            attrs = {op.variadic: len(arrays)} | attrs
        p = params if attrs is None else op.Param.parse(attrs, op=op.name)
        if len(arrays) != len(op.inputs(p)) + len(op.aux(p)):
            return None
        _, shapes = infer_shapes(op, p, [x.shape for x in arrays])
        _, codes = infer_types(op, p, [dtypes.code(x.dtype) for x in arrays])
    except MXNetError:
        return None
    unknown = None in codes or any(shape is None or -1 in shape for shape in shapes)
    if unknown and not op.dynamic_output:
        return None
    outputs = [TensorSpec(shape, code) for shape, code in zip(shapes, codes, strict=True)]  # type: ignore[arg-type]
    return Case(op, p, tuple(arrays), tuple(outputs), is_train)


def _draw(rng: random.Random, op: Operator, dtype: str, most: int, smooth: bool) -> Case | None:
    params, described = random_calls.draw(rng, op, first_shape(rng, most), dtype=dtype)
    differentiable: Sequence[Any] = ()
    try:
        settings = {op.variadic: len(described)} | params if op.variadic is not None else params
        p = op.Param.parse(settings, op=op.name)
        numbers = [abs(v) for v in settings.values() if isinstance(v, float) and v]
        if any(v < (1e-3 if smooth else 1e-12) or v > 1e6 for v in numbers):
            return None  # whose results have overflowed on the way, or are steps
        if op.name in SOUND and not SOUND[op.name](p):
            return None
        differentiable = gradient_of(op, p).grads if smooth else ()
        shapes = infer_shapes(op, p, [shape for shape, _, _ in described])[1]
    except MXNetError:
        return None
    if sum(math.prod(shape or ()) for shape in shapes) > 64 * most:
        return None
    arrays = []
    for i, (shape, name, _) in enumerate(described):
        kind = rng.choice(("any", "any", "any", "fraction", "fraction", "index", "one", "zero"))
        if smooth and i < len(differentiable) and differentiable[i] is not None:
            kind = rng.choice(("any", "fraction"))
        arrays.append(_array(rng, shape, name, kind))
    if op.name in TOGETHER:
        arrays = [np.asarray(x, y.dtype) for x, y in zip(TOGETHER[op.name](*arrays), arrays, strict=True)]
    return _case(op, p, arrays, rng.random() < 0.8)


def _array(rng: random.Random, shape: Sequence[int], dtype: str, kind: str) -> Any:
    numbers = np.random.default_rng(rng.getrandbits(32))
    values = CONTENTS[kind](numbers, tuple(shape))
    if dtype in INTEGERS and kind in ("any", "fraction"):
        values = numbers.integers(0 if dtype in ("uint8", "bool") else -9, 10, shape)
    return np.asarray(values).astype(dtypes.numpy_dtype(dtypes.code(dtype)))


def named_inputs(case: Case) -> list[str] | None:
    """Names of the inputs in a call; None for what only gradients call, where names mean two things."""
    op, names = case.op, [*case.op.inputs(case.params), *case.op.aux(case.params)]
    settings = {info.name for info in case.params.fields()}
    declared = {*op.arguments, *op.auxiliaries}
    return names if set(names) <= declared and not declared & settings else None
