# SPDX-License-Identifier: Apache-2.0
"""Deformable convolutions: bent windows as columns, then products."""

from __future__ import annotations

from math import prod
from typing import Any

from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite, same, traced
from mx_operators_cpu.indexing.view import View, move
from mx_operators_cpu.library import native
from mx_operators_cpu.matmul.matmul_loops import own_type, product
from mx_operators_cpu.signature import accumulator, floating, tensors


def _sum(x: Any, y: Any) -> Any:
    return x + y


class _Convolution:
    """Shapes and parts of one convolution; `first` is the input that holds data."""

    def __init__(self, call: KernelCall, first: int) -> None:
        p: Any = call.params
        masked = "mask" in call.op.arguments
        self.call, self.first, self.made = call, first, Composite(call)
        self.kind = accumulator(call.inputs[first].dtype)
        data, offset = call.inputs[first], call.inputs[first + 1]
        self.weight = first + 3 if masked else first + 2
        self.batch, self.channels = data.shape[:2]
        self.windows = prod(offset.shape[2:])
        self.wide = self.batch * self.windows
        self.groups, self.filters = p.num_group, p.num_filter
        self.depth = self.channels // self.groups * prod(p.kernel)
        self.sampled = list(range(first, self.weight))  # data, offset[, mask]
        self.window: dict[str, Any] = {
            "kernel": p.kernel, "stride": p.stride or (1, 1), "pad": p.pad or (0, 0), "dilate": p.dilate or (1, 1),
            "groups": p.num_deformable_group, "masked": masked,
        }  # fmt: skip

    def temporary(self, *shape: int) -> int:
        return self.made.temporary(shape, self.kind)

    def own_type(self, source: int) -> int:
        """An array in the type that is computed in."""
        return own_type(self.made, self.call, source, self.kind)

    def columns(self) -> int:
        """The bent windows (channels · kernel elements, batch · windows)."""
        shape = (self.groups * self.depth, self.wide)
        specs = [self.call.inputs[i] for i in self.sampled]
        plan = native.deformable_columns_plan(tensors(specs), [(shape, self.kind)], **self.window)
        found = self.temporary(*shape)
        self.made.run(plan, self.sampled, [found])
        return found

    def product(self, a: int, b: int, to: int, m: int, k: int, n: int, transposed: tuple[bool, bool]) -> None:
        """op(a) · op(b) per group: (m, k) times (k, n)."""
        product(self.made, self.kind, a, b, to, (self.groups, m, k, n), transposed)

    def swap(self, source: int, target: int, outer: int, inner: int, dtype: int, to_type: int) -> None:
        """(outer, inner, windows) as (inner, outer, windows)."""
        shape = (outer, inner, self.windows)
        swapped = View.of(shape).permute((1, 0, 2))
        moves = [move(swapped, View.of(swapped.shape))]
        if dtype == to_type:
            plan = native.move_plan([(shape, dtype)], [(swapped.shape, dtype)], moves)
            self.made.run(plan, [source], [target])
            return
        between = self.made.temporary(swapped.shape, dtype)
        self.made.run(
            native.move_plan([(shape, dtype)], [(swapped.shape, dtype)], moves), [source], [between]
        )
        self.made.evaluate(traced(same, 1), [between], [target], shapes=[self.call.outputs[0].shape])


def _taken(call: KernelCall, conv: _Convolution) -> bool:
    """Whether there is anything to compute: empty arrays are left to the reference."""
    return floating(call) and min(conv.wide, conv.depth, conv.filters) > 0


def convolution(call: KernelCall) -> object:
    """Columns, a product, the bias."""
    p: Any = call.params
    conv = _Convolution(call, 0)
    if not _taken(call, conv):
        return None
    made, out = conv.made, call.outputs[0]
    filters = conv.filters // conv.groups
    found = conv.temporary(conv.filters, conv.wide)
    conv.product(
        conv.own_type(conv.weight), conv.columns(), found, filters, conv.depth, conv.wide, (False, False)
    )
    if p.no_bias and conv.batch > 1:
        conv.swap(found, made.output(0), conv.filters, conv.batch, conv.kind, out.dtype)
        return made.plan()
    if conv.batch > 1:
        transposed = conv.temporary(*out.shape)
        conv.swap(found, transposed, conv.filters, conv.batch, conv.kind, conv.kind)
        found = transposed
    if p.no_bias:
        made.evaluate(traced(same, 1), [found], [made.output(0)], shapes=[out.shape])
    else:
        shapes = [out.shape, (1, conv.filters, 1, 1)]
        made.evaluate(traced(_sum, 2), [found, conv.weight + 1], [made.output(0)], shapes=shapes)
    return made.plan()


def backward_convolution(call: KernelCall) -> object:
    """Through the product, then through the places and weights of the samples."""
    p: Any = call.params
    conv = _Convolution(call, 1)
    if not _taken(call, conv):
        return None
    made, filters = conv.made, conv.filters // conv.groups
    head = conv.own_type(0)
    if conv.batch > 1:
        transposed = conv.temporary(conv.filters, conv.batch, conv.windows)
        conv.swap(head, transposed, conv.batch, conv.filters, conv.kind, conv.kind)
        head = transposed
    shape = (conv.groups * conv.depth, conv.wide)
    by_columns = conv.temporary(*shape)
    conv.product(conv.own_type(conv.weight), head, by_columns, conv.depth, filters, conv.wide, (True, False))
    specs = [call.inputs[i] for i in conv.sampled]
    grads = tensors(call.outputs[: len(specs)])
    plan = native.deformable_backward_plan([(shape, conv.kind), *tensors(specs)], grads, **conv.window)
    made.run(plan, [by_columns, *conv.sampled], [made.output(i) for i in range(len(specs))])
    weight = call.outputs[len(specs)]
    found = conv.temporary(*weight.shape)
    conv.product(head, conv.columns(), found, filters, conv.wide, conv.depth, (False, True))
    made.evaluate(traced(same, 1), [found], [made.output(len(specs))])
    if not p.no_bias:
        made.reduce(0, made.output(len(specs) + 1), "sum", call.inputs[0].shape, [True, False, True, True])
    return made.plan()
