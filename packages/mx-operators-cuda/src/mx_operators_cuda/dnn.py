# SPDX-License-Identifier: Apache-2.0
"""Convolution, its transpose, and the gradients of both, by cuDNN, with our own kernels for what it declines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.kernels import TensorSpec
from mx_operators_cuda import convolution, cudnn, elementwise
from mx_operators_cuda.convolution import Result, Shape, Work
from mx_operators_cuda.launch import Kind, Launch, Library, Parameter, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

#: float32 may be rounded to TensorFloat-32 before it is multiplied; MXNet's name
CONVERSION = "MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION"
_FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32"))
#: which of x, w and y a result is
_PLACES = {Result.X: 0, Result.W: 1, Result.Y: 2}
#: bytes of which a workspace begins at a multiple
ALIGNMENT = 256
#: MiB of workspace of a layer with what follows it: the default of Convolution
_WORKSPACE = 1024


@dataclass(frozen=True)
class Signature:
    """All that a plan of cuDNN depends on but the GPU.

    Parameters
    ----------
    result : Result
    shape : Shape
    code : int
        Type code of all tensors.
    bias : bool
        It is added to the result.
    add : bool
        The result is added to what is there.
    workspace : int
        Bytes at most.
    converts : bool
        Whether float32 may be rounded to TensorFloat-32.
    residual, relu : bool
        A tensor is added after the bias; only the positive part is kept.
    """

    result: Result
    shape: Shape
    code: int
    bias: bool
    add: bool
    workspace: int
    converts: bool
    residual: bool = False
    relu: bool = False

    @property
    def called(self) -> str:
        """What it computes, for messages."""
        return "a convolution"

    def plan(self, gpu: int | None, properties: str = "") -> Any:
        """cuDNN's plan for a GPU, or for one that `properties` describe; such a plan is not run.

        Raises
        ------
        NoKernelError  cuDNN has none
        MXNetError  it failed
        """
        from mx_operators_cuda import _native

        s = self.shape
        fill = 2 - len(s.kernel)  # cuDNN has no convolutions along one axis
        inner, outer, kernel = (_widened(e, fill) for e in (s.inner, s.outer, s.kernel))
        x, w, y = (
            (s.batch, s.channels, *inner),
            (s.filters, s.channels // s.groups, *kernel),
            (s.batch, s.filters, *outer),
        )
        window = (_widened(s.stride, fill), _widened(s.dilate, fill), _widened(s.pad, fill, 0))
        return _native.ConvolutionPlan(
            result=int(self.result), dtype=self.code, last=s.last, bias=self.bias, add=self.add, extents=(x, w, y),
            window=window, workspace=self.workspace, converts=self.converts, gpu=gpu, properties=properties,
            residual=self.residual, relu=self.relu,
        )  # fmt: skip


def _widened(values: Sequence[int], fill: int, value: int = 1) -> tuple[int, ...]:
    return (*(value,) * fill, *values)


def converts() -> bool:
    """Whether the environment allows TensorFloat-32."""
    return os.environ.get(CONVERSION, "0").strip() not in ("", "0")


def convolve(call: KernelCall) -> Any:
    """data, weight[, bias] -> output."""
    return _plan(call, convolution.convolution_work(call))


def backward_convolve(call: KernelCall) -> Any:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    return _plan(call, convolution.backward_convolution_work(call))


def deconvolve(call: KernelCall) -> Any:
    """data, weight[, bias] -> output."""
    return _plan(call, convolution.deconvolution_work(call))


def backward_deconvolve(call: KernelCall) -> Any:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    return _plan(call, convolution.backward_deconvolution_work(call))


def fused_convolve(call: KernelCall) -> Any:
    """data, weight[, bias][, residual] -> activation(convolution + bias + residual), by one graph of cuDNN.

    Declined where cuDNN has no plan: the graph then keeps the operators apart.
    """
    p: Any = call.params
    op: Any = call.op
    made = fused_signature(call)
    if made is None or not cudnn.installed():
        return None
    plan = cudnn.planned(made, call.context.device_id)
    if plan is None:
        return None
    x, w, y = (Kind.INPUT, 0), (Kind.INPUT, 1), (Kind.OUTPUT, 0)
    bias: Parameter | None = None if p.no_bias else (Kind.INPUT, 2)
    residual: Parameter = (Kind.INPUT, len(call.inputs) - 1)
    product: Parameter = (Kind.SCRATCH, 0)
    n = prod(call.outputs[0].shape)
    flat = TensorSpec((n,), made.code)
    n_read = 2 if p.residual else 1
    last = elementwise.kernel(
        op.name, X.trace(lambda *values: op.activated(p, sum(values[1:], start=values[0])), n_read),
        [flat] * n_read, [flat],
    )  # fmt: skip
    assert last is not None
    places: dict[Parameter, Parameter] = {(Kind.INPUT, 0): product, (Kind.INPUT, 1): residual}
    instead = [*convolution.forward(made.shape, made.code, x, w, bias, product), last.taking(places)]
    tensors = (x, w, y, w if bias is None else bias, *((residual,) if p.residual else ()))
    library = Library(plan, None, tensors, (y,), (Kind.SCRATCH, 1), 0, len(instead))
    scratch = [n * dtypes.itemsize(made.code), plan.workspace + ALIGNMENT]
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [library, *instead], scratch=scratch
    )


def fused_signature(call: KernelCall) -> Signature | None:
    """What cuDNN is asked for, or None for what it is not: other activations, or nothing after the layer."""
    p: Any = call.params
    if p.packed or p.activation not in (None, "relu") or not (p.residual or p.activation):
        return None
    shape, code = convolution.shape_of(call), call.inputs[0].dtype
    if {spec.dtype for spec in (*call.inputs, *call.outputs)} != {code} or code not in _FLOATS:
        return None
    if any(spec.layout for spec in (*call.inputs, *call.outputs)) or min(shape.elements) == 0:
        return None
    if len(shape.kernel) > 3 or max(shape.elements) >= 1 << 31:
        return None
    return Signature(
        Result.Y,
        shape,
        code,
        not p.no_bias,
        False,
        _WORKSPACE << 20,
        converts(),
        p.residual,
        p.activation == "relu",
    )


def signatures(call: KernelCall, work: Work) -> list[Signature]:
    """What cuDNN is asked for: one per piece of the work."""
    p: Any = call.params
    limit, rounded = int(p.workspace) << 20, converts()
    return [
        Signature(piece.result, work.shape, work.code, len(piece.places) > 3, False, limit, rounded)
        for piece in work.pieces
    ]


def _whole(s: Shape) -> bool:
    """Whether the extents are those of a convolution: a transpose to a target shape cuts one element more in front."""
    return s.outer == tuple(
        (size + 2 * pad - dilate * (taps - 1) - 1) // stride + 1
        for size, pad, dilate, taps, stride in zip(s.inner, s.pad, s.dilate, s.kernel, s.stride, strict=True)
    )


def _plan(call: KernelCall, work: Work | None) -> Any:
    """A plan of what cuDNN has, each with our own kernels in its place for the runs that it declines."""
    p: Any = call.params
    if work is None or p.cudnn_off or not cudnn.installed():
        return None
    if work.code not in _FLOATS or min(work.shape.elements) == 0 or not _whole(work.shape):
        return None
    gpu = call.context.device_id
    steps: list[Launch | Library] = []
    workspace: Parameter = (Kind.SCRATCH, len(work.scratch))
    needed = -1
    for piece, signature in zip(work.pieces, signatures(call, work), strict=True):
        written = cudnn.planned(signature, gpu)
        if written is not None:
            # cuDNN does not add a result with a bias
            added = None if signature.bias else cudnn.planned(replace(signature, add=True), gpu)
            needed = max(needed, *(plan.workspace for plan in (written, added) if plan is not None))
            results = (piece.places[_PLACES[piece.result]],)
            steps.append(Library(written, added, piece.places, results, workspace, 0, len(piece.steps)))
        steps += piece.steps
    if needed < 0:
        return None
    scratch = [*work.scratch, needed + ALIGNMENT]
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [*steps, *work.sums], scratch=scratch
    )
