# SPDX-License-Identifier: Apache-2.0
"""Convolution, its transpose, and the gradients of both, on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.kernels import TensorSpec
from mx_operators.nn.convolution import ConvolutionParam, channels_last
from mx_operators.nn.deconvolution import DeconvolutionParam, cut_and_adjust
from mx_operators.nn.window import geometry
from mx_operators.vision.upsampling import filter_param
from mx_operators_cuda import moves, reduce, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.reduction import runs_of
from mx_operators_cuda.launch import Kind, Launch, Parameter, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32", "float64"))
#: rows and columns of a block's tile, and its threads
_TILE, _BLOCK = 64, 256
#: blocks that fill a large GPU, and positions that a part of a weight's gradient has at least
_BLOCKS, _POSITIONS = 512, 1024


@dataclass(frozen=True)
class Shape:
    """Extents of a convolution of `data` (examples, channels, space) to `out` channels and space.

    Parameters
    ----------
    batch, groups : int
    channels, filters : int
        Of all groups.
    inner, outer : tuple of int
        Spatial extents of data and of the result.
    """

    batch: int
    groups: int
    channels: int
    filters: int
    inner: tuple[int, ...]
    outer: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilate: tuple[int, ...]
    pad: tuple[int, ...]
    last: bool

    @property
    def weights(self) -> int:
        """Elements of the filters."""
        return self.filters * (self.channels // self.groups) * prod(self.kernel)

    @property
    def elements(self) -> tuple[int, int, int]:
        """Elements of data, of the filters, and of the result."""
        inner, outer = self.channels * prod(self.inner), self.filters * prod(self.outer)
        return self.batch * inner, self.weights, self.batch * outer

    def argument(self) -> written.Argument:
        """The struct of the kernels."""
        extents = (
            *_three(self.inner, 1), *_three(self.outer, 1), *_three(self.kernel, 1), *_three(self.stride, 1),
            *_three(self.dilate, 1), *_three(self.pad, 0),
        )  # fmt: skip
        counts = (self.batch, self.groups, self.channels // self.groups, self.filters // self.groups)
        numbers = [written.small(n) for n in (*counts, *extents, int(self.last))]
        return written.struct("convolution::Geometry", numbers)

    def tiles(self, rows: int, columns: int) -> int:
        """Tiles of a product of each group."""
        return -(-rows // _TILE) * -(-columns // _TILE) * self.groups


def _three(values: Sequence[int], fill: int) -> tuple[int, ...]:
    return (*(fill,) * (3 - len(values)), *values)


def _code(call: KernelCall) -> int | None:
    """The one floating-point type of all tensors."""
    specs = (*call.inputs, *call.outputs)
    (code, *others) = {spec.dtype for spec in specs}
    return None if others or code not in _FLOATS or any(spec.layout for spec in specs) else code


def forward(
    shape: Shape, code: int, x: Parameter, w: Parameter, bias: Parameter | None, y: Parameter
) -> list[Launch]:
    """y = w * x (+ bias)."""
    return _product("convolution", "forward", shape, code, (x, w, bias, y))


def transposed(
    shape: Shape, code: int, y: Parameter, w: Parameter, bias: Parameter | None, x: Parameter
) -> list[Launch]:
    """x = wᵀ * y (+ bias)."""
    return _product("convolution", "transposed", shape, code, (y, w, bias, x))


def _product(
    name: str,
    kind: str,
    shape: Shape,
    code: int,
    places: tuple[Parameter, Parameter, Parameter | None, Parameter],
) -> list[Launch]:
    first, second, bias, made = places
    groups, columns = shape.groups, shape.outer if kind == "forward" else shape.inner
    rows = (shape.filters if kind == "forward" else shape.channels) // groups
    if rows * shape.batch * prod(columns) == 0:
        return []
    threads = shape.tiles(rows, shape.batch * prod(columns)) * _BLOCK
    arguments = [
        written.read(first, code), written.read(second, code),
        written.absent(code) if bias is None else written.read(bias, code),
        written.write(made, code), shape.argument(),
    ]  # fmt: skip
    blocks = 2 if code == dtypes.code("float64") else 4  # whose tiles of float32 fit into 64 registers
    types = [names.STORAGE[code]]
    return [
        written.launch(name, f"convolution::{kind}", types, arguments, threads, barriers=True, blocks=blocks)
    ]


def weights(
    shape: Shape, code: int, x: Parameter, y: Parameter, w: Parameter
) -> tuple[list[Launch], list[int]]:
    """The gradient of weights, and the bytes of scratch; of many positions in parts that are then added up."""
    elements, stored = shape.weights, names.STORAGE[code]
    if elements == 0:
        return [], []
    tiles = shape.tiles(shape.filters // shape.groups, elements // shape.filters)
    parts = max(1, min(-(-shape.batch * prod(shape.outer) // _POSITIONS), _BLOCKS // tiles, 64))
    wide = dtypes.code("float64") if code == dtypes.code("float64") else dtypes.code("float32")
    into, into_code = (w, code) if parts == 1 else ((Kind.SCRATCH, 0), wide)
    arguments = [
        written.read(x, code), written.read(y, code), written.write(into, into_code),
        written.request(w[1]), written.small(parts), shape.argument(),
    ]  # fmt: skip
    types = [stored, names.STORAGE[into_code]]
    steps = [
        written.launch(
            "convolution", "convolution::weights", types, arguments, tiles * parts * _BLOCK, barriers=True
        )
    ]
    if parts == 1:
        return steps, []
    join = [written.read(into, wide), written.write(w, code), written.small(parts), written.small(elements)]
    steps.append(written.launch("convolution", "convolution::join", [stored], join, elements))
    return steps, [parts * elements * dtypes.itemsize(wide)]


def _sums(shape: tuple[int, ...], axis: int, code: int, place: Parameter, output: int, scratch: int) -> Any:
    """The gradient of a bias: sums over all axes but one; its first scratch has the number `scratch`."""
    axes = tuple(i for i in range(len(shape)) if i != axis)
    made, bytes_ = reduce.launches("bias_grad", reduce.SUM, runs_of(shape, axes), code)
    places: dict[Parameter, Parameter] = {
        (Kind.INPUT, 0): place, (Kind.OUTPUT, 0): (Kind.OUTPUT, output),
        (Kind.REQUEST, 0): (Kind.REQUEST, output), (Kind.SCRATCH, 0): (Kind.SCRATCH, scratch),
    }  # fmt: skip
    return [launch.taking(places) for launch in made], bytes_


class Result(IntEnum):
    """Which tensor of y = w * x is computed; the numbers of `csrc/convolution_graph.hpp`."""

    Y = 0  #: the convolution
    X = 1  #: the gradient of data, or the transpose
    W = 2  #: the gradient of weights


@dataclass(frozen=True)
class Piece:
    """One result of an operator.

    Parameters
    ----------
    result : Result
    places : tuple of Parameter
        Of x, w, y and the bias that is added to the result, which may be missing.
    steps : list of Launch
        Our own kernels for it.
    """

    result: Result
    places: tuple[Parameter, ...]
    steps: list[Launch]


@dataclass(frozen=True)
class Work:
    """All that an operator computes.

    Parameters
    ----------
    shape : Shape
    code : int
        Type code of all tensors.
    pieces : tuple of Piece
    sums : list of Launch
        The gradient of the bias.
    scratch : list of int
        Bytes of each piece of scratch memory.
    """

    shape: Shape
    code: int
    pieces: tuple[Piece, ...]
    sums: list[Launch]
    scratch: list[int]

    def plan(self, call: KernelCall) -> Any:
        """A plan of our own kernels."""
        steps = [step for piece in self.pieces for step in piece.steps] + self.sums
        return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=self.scratch)


# ---- Convolution ----


def _convolved(p: ConvolutionParam, data: TensorSpec, result: TensorSpec) -> Shape:
    last = channels_last(p)
    inner, outer = (s.shape[1:-1] if last else s.shape[2:] for s in (data, result))
    stride, dilate, pad = geometry(p)
    channels = data.shape[-1 if last else 1]
    return Shape(
        data.shape[0], p.num_group, channels, p.num_filter, inner, outer, p.kernel, stride, dilate, pad, last
    )


def shape_of(call: KernelCall) -> Shape:
    """That of a layer with the parameters of Convolution."""
    p: Any = call.params
    return _convolved(p, call.inputs[0], call.outputs[0])


def convolve(call: KernelCall) -> Any:
    """data, weight[, bias] -> output."""
    work = convolution_work(call)
    return work and work.plan(call)


def convolution_work(call: KernelCall) -> Work | None:
    """That of Convolution; None for what the kernels do not have."""
    return _forward_work(call, shape_of(call), Result.Y, ((Kind.INPUT, 0), (Kind.INPUT, 1), (Kind.OUTPUT, 0)))


def backward_convolve(call: KernelCall) -> Any:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    work = backward_convolution_work(call)
    return work and work.plan(call)


def backward_convolution_work(call: KernelCall) -> Work | None:
    """That of the gradient of Convolution; None for what the kernels do not have."""
    p: Any = call.params
    head, data = call.inputs[:2]
    shape = _convolved(p, data, head)
    return _backward_work(call, shape, Result.X, ((Kind.OUTPUT, 0), (Kind.INPUT, 2), (Kind.INPUT, 0)),
                          ((Kind.INPUT, 1), (Kind.OUTPUT, 1), (Kind.INPUT, 0)))  # fmt: skip


def _forward_work(
    call: KernelCall, shape: Shape, result: Result, places: tuple[Parameter, Parameter, Parameter]
) -> Work | None:
    p: Any = call.params
    if (code := _code(call)) is None or not _fits(shape):
        return None
    x, w, y = places
    bias = None if p.no_bias else (Kind.INPUT, 2)
    steps = (
        forward(shape, code, x, w, bias, y) if result == Result.Y else transposed(shape, code, y, w, bias, x)
    )
    return Work(shape, code, (Piece(result, places if bias is None else (*places, bias), steps),), [], [])


def _backward_work(
    call: KernelCall,
    shape: Shape,
    result: Result,
    of_data: tuple[Parameter, Parameter, Parameter],
    of_weights: tuple[Parameter, Parameter, Parameter],
) -> Work | None:
    """Gradients of data, which is `result`, of weights, and of the bias if there is one."""
    if (code := _code(call)) is None or not _fits(shape):
        return None
    x, w, y = of_data
    steps = (
        forward(shape, code, x, w, None, y) if result == Result.Y else transposed(shape, code, y, w, None, x)
    )
    more, scratch = weights(shape, code, of_weights[0], of_weights[2], of_weights[1])
    sums: list[Launch] = []
    if len(call.outputs) > 2:
        head = call.inputs[0].shape
        axis = len(head) - 1 if shape.last else 1
        sums, added = _sums(head, axis, code, (Kind.INPUT, 0), 2, len(scratch))
        scratch = [*scratch, *added]
    return Work(
        shape, code, (Piece(result, of_data, steps), Piece(Result.W, of_weights, more)), sums, scratch
    )


def _fits(shape: Shape) -> bool:
    """At most three spatial axes, fewer than 2^31 elements."""
    return len(shape.kernel) <= 3 and max(shape.elements) < 1 << 31


# ---- Deconvolution ----


def _deconvolved(p: DeconvolutionParam, data: TensorSpec, result: TensorSpec) -> Shape:
    """The convolution whose transpose it is: its data are the result here."""
    stride, dilate, _ = geometry(p)
    pad = cut_and_adjust(p, data.shape[2:])[0]
    return Shape(
        data.shape[0], p.num_group, p.num_filter, data.shape[1], result.shape[2:], data.shape[2:], p.kernel,
        stride, dilate, pad, False,
    )  # fmt: skip


def deconvolve(call: KernelCall) -> Any:
    """data, weight[, bias] -> output."""
    work = deconvolution_work(call)
    return work and work.plan(call)


def deconvolution_work(call: KernelCall) -> Work | None:
    """That of Deconvolution; None for what the kernels do not have."""
    p: Any = call.params
    shape = _deconvolved(p, call.inputs[0], call.outputs[0])
    return _forward_work(call, shape, Result.X, ((Kind.OUTPUT, 0), (Kind.INPUT, 1), (Kind.INPUT, 0)))


def backward_deconvolve(call: KernelCall) -> Any:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    work = backward_deconvolution_work(call)
    return work and work.plan(call)


def backward_deconvolution_work(call: KernelCall) -> Work | None:
    """That of the gradient of Deconvolution; None for what the kernels do not have."""
    p: Any = call.params
    head, data = call.inputs[:2]
    shape = _deconvolved(p, data, head)
    return _backward_work(call, shape, Result.Y, ((Kind.INPUT, 0), (Kind.INPUT, 2), (Kind.OUTPUT, 0)),
                          ((Kind.INPUT, 0), (Kind.OUTPUT, 1), (Kind.INPUT, 1)))  # fmt: skip


def upsample(call: KernelCall) -> Any:
    """UpSampling of one image: pixels repeated, or the deconvolution of each channel."""
    p: Any = call.params
    if p.sample_type == "nearest":
        return moves.upsample(call) if p.num_args == 1 else None
    shape = _deconvolved(filter_param(p), call.inputs[0], call.outputs[0])
    if (code := _code(call)) is None or not _fits(shape):
        return None
    steps = transposed(shape, code, (Kind.INPUT, 0), (Kind.INPUT, 1), None, (Kind.OUTPUT, 0))
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)
