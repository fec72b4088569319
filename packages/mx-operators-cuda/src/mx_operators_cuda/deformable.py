# SPDX-License-Identifier: Apache-2.0
"""Deformable convolutions and position-sensitive regions with moved bins, and their gradients, on a GPU.

No kernel can raise an error about a value it reads: a region of an image that is not there reads the first or last one.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.expression import compute_dtype
from mx_core.kernels import TensorSpec
from mx_operators.nn.window import geometry
from mx_operators_cuda import folds, reduce, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.reduction import runs_of
from mx_operators_cuda.launch import Kind, Launch, Parameter, Product, make_plan
from mx_operators_cuda.product import Matrix, multiply
from mx_operators_cuda.sort import Keys, order

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_INT32 = dtypes.code("int32")
_MOST = 1 << 31
#: scratch: bent windows, the result or head gradient by filters, the gradient of the columns, pixels, weights
_COLUMNS, _FILTERS, _BY_COLUMN, _PIXELS, _WEIGHTS = range(5)


class _Convolution:
    """Shapes of one convolution; `first` is the input that holds data."""

    def __init__(self, call: KernelCall, first: int) -> None:
        p: Any = call.params
        self.call, self.first, self.code = call, first, call.inputs[first].dtype
        self.masked = "mask" in (call.op.backward_of or call.op).arguments
        self.weight = first + (3 if self.masked else 2)
        self.data, offset = call.inputs[first].shape, call.inputs[first + 1].shape
        self.batch, self.channels = self.data[:2]
        self.windows = prod(offset[2:])
        self.wide = self.batch * self.windows
        self.groups, self.filters = p.num_group, p.num_filter
        self.depth = self.channels // self.groups * prod(p.kernel)
        stride, dilate, pad = geometry(p)
        self.numbers = (
            *self.data,
            *offset[2:],
            *p.kernel,
            *stride,
            *dilate,
            *pad,
            p.num_deformable_group,
            int(self.masked),
        )
        self.samples = self.wide * p.num_deformable_group * prod(p.kernel)
        self.types = [written.value_type(self.code), names.STORAGE[self.code]]

    @property
    def supported(self) -> bool:
        """One floating-point type, and something to compute."""
        specs = (*self.call.inputs, *self.call.outputs)
        sizes = (
            4 * self.samples,
            prod(self.data),
            self.depth * self.groups * self.wide,
            self.filters * self.wide,
        )
        return (
            folds.floating(specs)
            and len({s.dtype for s in specs}) == 1
            and self.depth > 0
            and max(sizes) < _MOST
        )

    def read(self, i: int) -> written.Argument:
        return written.read((Kind.INPUT, i), self.code)

    def mask(self) -> written.Argument:
        return self.read(self.first + 2) if self.masked else written.absent(self.code)

    def launch(self, function: str, arguments: list[written.Argument], n: int) -> Launch:
        shape = written.struct("deformable::Windows", [written.number(x) for x in self.numbers])
        return written.launch(
            self.call.op.name, f"deformable::{function}", self.types, [*arguments, shape], n
        )

    def columns(self) -> Launch:
        """The bent windows (channels · kernel elements, batch · windows)."""
        arguments = [
            self.read(self.first), self.read(self.first + 1), self.mask(),
            written.write((Kind.SCRATCH, _COLUMNS), self.code),
        ]  # fmt: skip
        return self.launch("columns", arguments, self.samples)

    def swap(
        self, source: Parameter, bias: written.Argument, target: Parameter, outer: int, inner: int
    ) -> Launch:
        """(outer, inner, windows) as (inner, outer, windows)."""
        arguments = [
            written.read(source, self.code), bias, written.write(target, self.code),
            *(written.number(x) for x in (outer, inner, self.windows)),
        ]  # fmt: skip
        n = outer * inner * self.windows
        return written.launch(self.call.op.name, "deformable::swap", self.types, arguments, n)

    def product(self, c: Matrix, a: Matrix, b: Matrix) -> list[Launch | Product]:
        """A product per group."""
        return multiply(c, a, b, self.code, self.groups)

    def plan(self, steps: list[Launch | Product], scratch: list[int]) -> Any:
        call = self.call
        return make_plan(
            call.op.name, call.context, call.inputs, call.outputs, steps, scratch=[max(n, 8) for n in scratch]
        )

    @property
    def scratch(self) -> list[int]:
        """Bytes of the columns, and of the filters."""
        item = dtypes.itemsize(self.code)
        return [item * self.groups * self.depth * self.wide, item * self.filters * self.wide]


def convolve(call: KernelCall) -> Any:
    """data, offset[, mask], weight[, bias] -> output."""
    p: Any = call.params
    conv = _Convolution(call, 0)
    if not conv.supported:
        return None
    if conv.wide == 0:
        return conv.plan([], [])
    filters = conv.filters // conv.groups
    found: Parameter = (Kind.SCRATCH, _FILTERS)
    bias = written.absent(conv.code) if p.no_bias else conv.read(conv.weight + 1)
    steps = [
        conv.columns(),
        *conv.product(
            Matrix(found, filters, conv.wide), Matrix((Kind.INPUT, conv.weight), filters, conv.depth),
            Matrix((Kind.SCRATCH, _COLUMNS), conv.depth, conv.wide),
        ),
        conv.swap(found, bias, (Kind.OUTPUT, 0), conv.filters, conv.batch),
    ]  # fmt: skip
    return conv.plan(steps, conv.scratch)


def backward_convolve(call: KernelCall) -> Any:
    """out_grad, data, offset[, mask], weight -> their gradients, and that of the bias."""
    p: Any = call.params
    conv = _Convolution(call, 1)
    if not conv.supported or conv.wide == 0:
        return None
    filters, code, offset = conv.filters // conv.groups, conv.code, conv.first + 1
    head = Matrix((Kind.SCRATCH, _FILTERS), filters, conv.wide)
    columns, by_column = ((Kind.SCRATCH, piece) for piece in (_COLUMNS, _BY_COLUMN))
    steps = [
        conv.swap((Kind.INPUT, 0), written.absent(code), head.place, conv.batch, conv.filters),
        *conv.product(
            Matrix(by_column, conv.depth, conv.wide),
            Matrix((Kind.INPUT, conv.weight), filters, conv.depth).T,
            head,
        ),
    ]
    # what offsets, and a mask, change
    gradient = written.read(by_column, code)
    masks = written.write((Kind.OUTPUT, 2), code)
    if not conv.masked:
        masks = written.Argument(f"static_cast<{names.STORAGE[code]}*>(nullptr), 0", ())
    arguments = [
        gradient, conv.read(conv.first), conv.read(offset), conv.mask(), written.write((Kind.OUTPUT, 1), code), masks,
    ]  # fmt: skip
    steps.append(conv.launch("by_place", arguments, conv.samples))
    # data
    value, wide = conv.types[0], compute_dtype((code,))
    pixels = written.Argument("{0}", (("mx::int32*", (Kind.SCRATCH, _PIXELS)),))
    weights = written.Argument("{0}", ((f"{value}*", (Kind.SCRATCH, _WEIGHTS)),))
    rows = conv.batch * p.num_deformable_group
    found = order(
        call.op.name, Keys(rows, 4 * conv.samples // rows, 1), (Kind.SCRATCH, _PIXELS), _INT32, scratch=5
    )
    steps += [
        conv.launch("corners", [conv.read(offset), conv.mask(), pixels, weights], 4 * conv.samples),
        *found.steps,
        conv.launch(
            "by_data",
            [
                gradient,
                pixels,
                weights,
                written.read(found.place, _INT32),
                written.write((Kind.OUTPUT, 0), code),
            ],
            prod(conv.data),
        ),
    ]
    # weight and bias
    output = len(call.outputs) - (1 if p.no_bias else 2)
    steps.append(conv.columns())
    steps += conv.product(
        Matrix((Kind.OUTPUT, output), filters, conv.depth), head, Matrix(columns, conv.depth, conv.wide).T
    )
    scratch = [*conv.scratch, conv.scratch[0], 16 * conv.samples, 4 * dtypes.itemsize(wide) * conv.samples]
    scratch += found.scratch
    if not p.no_bias:
        shape = (conv.batch, conv.filters, conv.windows)
        sums, more = reduce.launches("bias_grad", reduce.SUM, runs_of(shape, (0, 2)), code)
        places: dict[Parameter, Parameter] = {
            (Kind.OUTPUT, 0): (Kind.OUTPUT, output + 1), (Kind.REQUEST, 0): (Kind.REQUEST, output + 1),
            **{(Kind.SCRATCH, i): (Kind.SCRATCH, len(scratch) + i) for i in range(len(more))},
        }  # fmt: skip
        steps += [launch.taking(places) for launch in sums]
        scratch += more
    return conv.plan(steps, scratch)


# ---- position-sensitive regions ----


def _rule(p: Any, data: tuple[int, ...], rois: TensorSpec, trans: TensorSpec | None) -> written.Argument:
    parts = p.part_size or p.pooled_size
    numbers = (
        *data, rois.shape[0], p.output_dim, p.group_size, p.pooled_size, parts, p.sample_per_part,
        0 if trans is None else trans.shape[1] // 2,
    )  # fmt: skip
    scales = [written.double(x) for x in (p.spatial_scale, p.trans_std)]
    return written.struct("deformable::Rule", [*scales, *(written.number(n) for n in numbers)])


def _regions(
    call: KernelCall, function: str, first: int, output: int, reads: list[int]
) -> list[Launch] | None:
    """A launch over an output; the inputs from `first` on are data, rois and trans."""
    p: Any = call.params
    specs = (*call.inputs, *call.outputs)
    if not folds.floating(specs) or len({s.dtype for s in specs}) > 1:
        return None
    data, rois, code = call.inputs[first], call.inputs[first + 1], call.inputs[0].dtype
    trans = None if p.no_trans else call.inputs[first + 2]
    shifts = written.absent(code) if trans is None else written.read((Kind.INPUT, first + 2), code)
    arguments = [
        *(written.read((Kind.INPUT, i), code) for i in (*reads, first + 1)), shifts,
        written.write((Kind.OUTPUT, output), code), _rule(p, data.shape, rois, trans),
    ]  # fmt: skip
    types, n = [written.value_type(code), names.STORAGE[code]], prod(call.outputs[output].shape)
    return [written.launch(call.op.name, f"deformable::{function}", types, arguments, n)] if n else []


def pool(call: KernelCall) -> Any:
    """data, rois[, trans] -> means of samples."""
    steps = _regions(call, "pool", 0, 0, [0])
    return None if steps is None else make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)


def backward_pool(call: KernelCall) -> Any:
    """out_grad, data, rois[, trans] -> the gradients of data and trans."""
    p: Any = call.params
    steps = _regions(call, "backward_pool", 1, 0, [0])
    if steps is None:
        return None
    if not p.no_trans:
        steps += _regions(call, "backward_shift", 1, 1, [0, 1]) or []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)
