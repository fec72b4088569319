# SPDX-License-Identifier: Apache-2.0
"""Samples of gamma, Poisson and mixed distributions, of distributions whose parameters are arrays, and choices.

No kernel can raise an error about a parameter it reads from an array: what no distribution has gives NaN.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_operators_cuda import elementwise, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Condition, Kind, make_plan
from mx_operators_cuda.sort import Keys, order

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_STREAM = written.stream()
_FLOAT64, _INT64, _INT32 = (dtypes.code(name) for name in ("float64", "int64", "int32"))


def _above(i: int, name: str) -> Condition:
    return Condition(i, None, True, f"{name} is not above 0")


def _least(i: int, name: str) -> Condition:
    return Condition(i, None, False, f"{name} is below 0")


#: distribution -> struct of the header, conditions of its run-time scalars
_LAWS: dict[str, tuple[str, tuple[Condition, ...]]] = {
    "uniform": ("Uniform", ()),
    "normal": ("Normal", ()),
    "exponential": ("Exponential", ()),
    "gamma": ("Gamma", (_above(0, "alpha"), _above(1, "beta"))),
    "poisson": ("Poisson", (_least(0, "lam"),)),
    "negative_binomial": ("NegativeBinomial", (_above(0, "k"), _above(1, "p"))),
    "generalized_negative_binomial": ("GeneralizedNegativeBinomial", (_least(0, "mu"), _least(1, "alpha"))),
}


def _law(name: str) -> tuple[str, tuple[Condition, ...]]:
    for prefix in ("_random_", "_sample_"):
        name = name.removeprefix(prefix)
    struct, conditions = _LAWS[name.removesuffix("_like")]
    return f"mx::samplers::{struct}", conditions


def _plain(call: KernelCall) -> bool:
    return not any(s.layout or s.dtype not in names.STORAGE for s in (*call.inputs, *call.outputs))


def fill(call: KernelCall) -> Any:
    """Numbers of one distribution, whose parameters are run-time scalars."""
    (output,) = call.outputs
    if not _plain(call):
        return None
    law, conditions = _law(call.op.name)
    n, scalars = prod(output.shape), len(call.params.scalars)
    given = [written.scalar(i) for i in range(scalars)] + [written.double(0.0)] * (2 - scalars)
    arguments = [written.write((Kind.OUTPUT, 0), output.dtype), _STREAM, *given, written.number(n)]
    types = [law, names.STORAGE[output.dtype]]
    steps = [written.launch(call.op.name, "samplers::fill", types, arguments, n)] if n else []
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps,
        n_scalars=scalars, random_blocks=call.random_blocks, conditions=conditions,
    )  # fmt: skip


def draw(call: KernelCall) -> Any:
    """Numbers for every element of the arrays that are the parameters."""
    (output,) = call.outputs
    if not _plain(call):
        return None
    law, _ = _law(call.op.name)
    n, size = prod(output.shape), prod(call.inputs[0].shape)
    codes = [s.dtype for s in call.inputs]
    given = [written.read((Kind.INPUT, i), code) for i, code in enumerate(codes)]
    if len(given) == 1:
        codes.append(_FLOAT64)
        given.append(written.absent(_FLOAT64))
    each = n // size if size else 1
    arguments = [
        written.write((Kind.OUTPUT, 0), output.dtype), _STREAM, *given, written.number(n), written.number(each)
    ]  # fmt: skip
    types = [law, names.STORAGE[output.dtype], *(names.STORAGE[code] for code in codes)]
    steps = [written.launch(call.op.name, "samplers::draw", types, arguments, n)] if n else []
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps, random_blocks=call.random_blocks
    )


def multinomial(call: KernelCall) -> Any:
    """Places by probability, and the logarithms of their probabilities with get_prob."""
    (data, samples, *more) = (*call.inputs, *call.outputs)
    if not _plain(call):
        return None
    n, classes = prod(samples.shape), data.shape[-1]
    rows = prod(data.shape[:-1])
    logarithm = (
        written.write((Kind.OUTPUT, 1), more[0].dtype) if more
        else written.Argument("static_cast<double*>(nullptr), 0", ())
    )  # fmt: skip
    arguments = [
        written.read((Kind.INPUT, 0), data.dtype), written.write((Kind.OUTPUT, 0), samples.dtype), logarithm, _STREAM,
        written.number(n), written.number(n // rows if rows else 1), written.number(classes),
    ]  # fmt: skip
    types = [
        names.STORAGE[samples.dtype],
        names.STORAGE[data.dtype],
        names.STORAGE[more[0].dtype] if more else "double",
    ]
    steps = [written.launch(call.op.name, "samplers::choose", types, arguments, n)] if n else []
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps, random_blocks=call.random_blocks
    )


def shuffle(call: KernelCall) -> Any:
    """Rows in the order of random keys."""
    data = call.inputs[0]
    if not data.shape:
        return elementwise.plan(call, elementwise.identity(), call.inputs, call.outputs)
    rows, elements = data.shape[0], prod(data.shape)
    if not _plain(call) or rows >= 1 << 31:
        return None
    if not elements:
        return make_plan(
            call.op.name, call.context, call.inputs, call.outputs, [], random_blocks=call.random_blocks
        )
    key = written.Argument("{0}", (("double*", (Kind.SCRATCH, 0)),))
    made = written.launch(call.op.name, "samplers::keys", [], [key, _STREAM, written.number(rows)], rows)
    found = order(call.op.name, Keys(1, rows, 1), (Kind.SCRATCH, 0), _FLOAT64, scratch=1)
    arguments = [
        written.read((Kind.INPUT, 0), data.dtype), written.read(found.place, _INT32),
        written.write((Kind.OUTPUT, 0), data.dtype), written.number(rows), written.number(elements // rows),
    ]  # fmt: skip
    moved = written.launch(call.op.name, "samplers::rows", [names.STORAGE[data.dtype]], arguments, elements)
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [made, *found.steps, moved],
        scratch=[8 * rows, *found.scratch], random_blocks=call.random_blocks,
    )  # fmt: skip


def different(call: KernelCall) -> Any:
    """Classes drawn without replacement."""
    p: Any = call.params
    rows, count = call.outputs[0].shape
    drawn = written.Argument("{0}", (("mx::int64*", (Kind.SCRATCH, 0)),))
    arguments = [
        drawn, written.write((Kind.OUTPUT, 0), _INT64), written.write((Kind.OUTPUT, 1), _INT64), _STREAM,
        written.number(rows), written.number(count), written.number(p.range_max),
    ]  # fmt: skip
    steps = [written.launch(call.op.name, "samplers::different", [], arguments, rows)] if rows else []
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps,
        scratch=[8 * max(rows * count, 1)], random_blocks=call.random_blocks,
    )  # fmt: skip
