# SPDX-License-Identifier: Apache-2.0
"""Counts of values in intervals, and count sketches, on a GPU.

No kernel can raise an error about a value it reads: places of a sketch are limited to those that there are, and edges
that do not ascend give counts of no meaning.
"""

from __future__ import annotations

from math import isfinite, prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.kernels import TensorSpec
from mx_operators_cuda import elementwise, folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, make_plan
from mx_operators_cuda.sort import Keys, order

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_INT32, _INT64 = dtypes.code("int32"), dtypes.code("int64")
#: types whose numbers float64 holds
_EXACT = frozenset(dtypes.code(n) for n in (
    "float16", "bfloat16", "float32", "float64", "int32", "int16", "int8", "uint8", "uint16", "uint32"))  # fmt: skip


def histogram(call: KernelCall) -> Any:
    """data[, bins] -> counts, edges."""
    p: Any = call.params
    counts, edges = call.outputs
    specs = (*call.inputs, edges)
    if any(s.layout or s.dtype not in _EXACT for s in specs) or counts.layout or counts.dtype != _INT64:
        return None
    bins, n, code = counts.shape[0], prod(call.inputs[0].shape), call.inputs[0].dtype
    if p.bin_cnt is not None:
        low, high = p.range
        width = (high - low) / bins
        if not (width > 0 and isfinite(width)):
            return None
        kind = "counts::Even"
        numbers = [*(written.double(x) for x in (low, high, width)), written.number(bins)]
    else:
        given = call.inputs[1].dtype
        kind = f"counts::Given<{names.STORAGE[given]}>"
        numbers = [written.read((Kind.INPUT, 1), given), written.number(bins)]
    about, name = written.struct(kind, numbers), call.op.name
    found = written.Argument("{0}", (("mx::uint64*", (Kind.SCRATCH, 0)),))
    zeros = elementwise.kernel(name, elementwise.ZERO, [], [TensorSpec((bins,), _INT64)])
    assert zeros is not None
    types = [names.STORAGE[code], f"mx::{kind}"]
    steps = [zeros.taking({(Kind.OUTPUT, 0): (Kind.SCRATCH, 0), (Kind.REQUEST, 0): (Kind.UINT32, 1)})]
    if n:
        arguments = [written.read((Kind.INPUT, 0), code), found, written.number(n), about]
        steps.append(written.launch(name, "counts::count", types, arguments, n))
    arguments = [
        found, written.write((Kind.OUTPUT, 0), _INT64), written.write((Kind.OUTPUT, 1), edges.dtype), about,
    ]  # fmt: skip
    types = [names.STORAGE[edges.dtype], f"mx::{kind}"]
    steps.append(written.launch(name, "counts::deliver", types, arguments, bins + 1))
    return make_plan(name, call.context, call.inputs, call.outputs, steps, scratch=[8 * bins])


def sketch(call: KernelCall) -> Any:
    """data, h, s -> sums by place."""
    p: Any = call.params
    data, h, s = call.inputs
    extent, n, places = data.shape[-1], prod(call.outputs[0].shape), p.out_dim
    if not folds.floating((*call.inputs, *call.outputs)) or max(extent, places) >= 1 << 31:
        return None
    code, name = data.dtype, call.op.name
    steps, scratch = [], [max(4 * extent, 4)]
    sorted_ = written.absent(_INT32)
    if extent and n:
        keys = written.Argument("{0}", (("mx::int32*", (Kind.SCRATCH, 0)),))
        arguments = [
            written.read((Kind.INPUT, 1), h.dtype),
            keys,
            written.number(extent),
            written.number(places),
        ]
        found = order(name, Keys(1, extent, 1), (Kind.SCRATCH, 0), _INT32, scratch=1)
        steps = [
            written.launch(name, "counts::places", [names.STORAGE[h.dtype]], arguments, extent),
            *found.steps,
        ]
        sorted_, scratch = written.read(found.place, _INT32), [*scratch, *found.scratch]
    arguments = [
        written.read((Kind.INPUT, 0), code), written.read((Kind.INPUT, 2), s.dtype),
        written.read((Kind.SCRATCH, 0), _INT32), sorted_, written.write((Kind.OUTPUT, 0), code),
        *(written.number(x) for x in (n // places, extent, places)),
    ]  # fmt: skip
    types = [written.value_type(code), names.STORAGE[code], names.STORAGE[s.dtype]]
    steps += [written.launch(name, "counts::sketch", types, arguments, n)] if n else []
    return make_plan(name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def backward_sketch(call: KernelCall) -> Any:
    """out_grad, data, h, s -> data_grad."""
    p: Any = call.params
    head, h, s = call.inputs[0], *call.inputs[-2:]
    output = call.outputs[0]
    if not folds.floating((head, h, s, output)) or head.dtype != output.dtype:
        return None
    n, last, code = prod(output.shape), len(call.inputs) - 1, head.dtype
    extent = output.shape[-1]
    arguments = [
        written.read((Kind.INPUT, 0), code), written.read((Kind.INPUT, last - 1), h.dtype),
        written.read((Kind.INPUT, last), s.dtype), written.write((Kind.OUTPUT, 0), code),
        *(written.number(x) for x in (n // max(extent, 1), extent, p.out_dim)),
    ]  # fmt: skip
    types = [written.value_type(code), *(names.STORAGE[c] for c in (code, h.dtype, s.dtype))]
    steps = [written.launch(call.op.name, "counts::backward_sketch", types, arguments, n)] if n else []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)
