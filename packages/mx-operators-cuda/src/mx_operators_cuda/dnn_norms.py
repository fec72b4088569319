# SPDX-License-Identifier: Apache-2.0
"""BatchNorm in training, LayerNorm, and the gradients of both, by cuDNN, with our own kernels for what it declines.

cuDNN writes the mean and 1/√(variance + eps), and our kernels make of them what the operators show. Moving averages
are ours too: MXNet's take the biased variance, cuDNN's the unbiased one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.kernels import TensorSpec
from mx_operators_cuda import cudnn, elementwise, norms
from mx_operators_cuda.launch import Kind, Launch, Library, Parameter, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_FLOAT32 = dtypes.code("float32")
_FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32"))
_WRITE: Parameter = (Kind.UINT32, 1)
#: bytes of which a workspace begins at a multiple
ALIGNMENT = 256
#: bytes of workspace at most: what sums of a channel over blocks take, but no copies of large data
WORKSPACE = 16 << 20


class Mode(IntEnum):
    """What is normalized; the numbers of `csrc/norm_graph.hpp`."""

    LAYER = 0  #: each example
    BATCH = 2  #: each channel


@dataclass(frozen=True)
class Signature:
    """All that a plan of cuDNN depends on but the GPU.

    Parameters
    ----------
    mode : Mode
    gradient : bool
    code, vectors : int
        Type codes of the data, and of gamma and beta.
    extents : (int, int, int, int)
        Examples, channels and space, which lie in memory with the channels as the last axis.
    epsilon : float
    """

    mode: Mode
    gradient: bool
    code: int
    vectors: int
    extents: tuple[int, int, int, int]
    epsilon: float

    @property
    def called(self) -> str:
        """What it computes, for messages."""
        return "a normalization"

    def plan(self, gpu: int | None, properties: str = "") -> Any:
        """cuDNN's plan for a GPU, or for one that `properties` describe; such a plan is not run.

        Raises
        ------
        NoKernelError  cuDNN has none
        MXNetError  it failed
        """
        from mx_operators_cuda import _native

        return _native.NormPlan(
            mode=int(self.mode), gradient=self.gradient, dtypes=(self.code, self.vectors), last=True,
            extents=self.extents, epsilon=self.epsilon, workspace=WORKSPACE, gpu=gpu, properties=properties,
        )  # fmt: skip


def signature(call: KernelCall) -> Signature | None:
    """What cuDNN is asked for, or None for what it is not: channels first, whose data it would copy twice."""
    p: Any = call.params
    gradient = call.op.backward_of is not None
    data, gamma = call.inputs[1:3] if gradient else call.inputs[:2]
    specs = (*call.inputs, *call.outputs)
    axis = p.axis % len(data.shape)
    name = (call.op.backward_of or call.op).name
    if data.dtype not in _FLOATS or any(spec.layout for spec in specs) or prod(data.shape[axis + 1 :]) != 1:
        return None
    if prod(data.shape) == 0 or getattr(p, "cudnn_off", False):
        return None
    channels = data.shape[axis]
    if name == "LayerNorm":
        extents = (prod(data.shape) // channels, channels, 1, 1)
        return Signature(Mode.LAYER, gradient, data.dtype, gamma.dtype, extents, p.eps)
    if not call.is_train or p.use_global_stats or gamma.dtype != _FLOAT32:
        return None
    examples = data.shape[0] if axis > 0 else 1
    extents = (examples, channels, prod(data.shape) // (examples * channels), 1)
    return Signature(Mode.BATCH, gradient, data.dtype, gamma.dtype, extents, p.eps)


@dataclass(frozen=True)
class _Pieces:
    """Scratch memory that follows that of our own kernels."""

    first: int
    sizes: list[int]

    def vector(self, elements: int) -> Parameter:
        """Some numbers in float32."""
        self.sizes.append(4 * elements)
        return (Kind.SCRATCH, self.first + len(self.sizes) - 1)


def _vectors(
    name: str, function: Callable[..., Any], n: int, inputs: Sequence[Parameter], outputs: Sequence[Parameter],
    code: int = _FLOAT32,
) -> Launch:  # fmt: skip
    """One pass over vectors of n numbers."""
    flat = TensorSpec((n,), code)
    traced = X.trace(function, len(inputs))
    made = elementwise.kernel(name, traced, [flat] * len(inputs), [flat] * len(outputs))
    assert made is not None
    places: dict[Parameter, Parameter] = {(Kind.INPUT, i): place for i, place in enumerate(inputs)}
    for o, place in enumerate(outputs):
        places[Kind.OUTPUT, o] = place
        places[Kind.REQUEST, o] = (Kind.REQUEST, place[1]) if place[0] is Kind.OUTPUT else _WRITE
    return made.taking(places)


def _plan(
    call: KernelCall,
    own: tuple[list[Launch], list[int]] | None,
    steps: Callable[
        [_Pieces], tuple[list[Launch], tuple[Parameter, ...], tuple[Parameter, ...], list[Launch]]
    ],
) -> Any:
    """cuDNN's plan with our own kernels in its place for the runs that it declines.

    Parameters
    ----------
    own : (list of Launch, list of int) or None
        Our own kernels, and their scratch.
    steps : function
        Launches before cuDNN's, its places, which of them are results, and launches after it.
    """
    if own is None or (what := signature(call)) is None or not cudnn.installed():
        return None
    layer = replace(what, extents=(0, what.extents[1], 0, 0))
    plan = cudnn.planned_size(what, layer, call.context.device_id)
    if plan is None:
        return None
    instead, scratch = own
    pieces = _Pieces(len(scratch), [])
    before, places, results, after = steps(pieces)
    sizes = [*scratch, *pieces.sizes]
    library = Library(plan, None, places, results, (Kind.SCRATCH, len(sizes)), len(after), len(instead))
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [*before, library, *after, *instead],
        scratch=[*sizes, plan.workspace + ALIGNMENT],
    )  # fmt: skip


def batch_norm(call: KernelCall) -> Any:
    """data, gamma, beta, moving_mean, moving_var -> output, mean, var."""
    p: Any = call.params
    op: Any = call.op
    channels = call.inputs[1].shape[0]
    kept, new = p.momentum, 1 - p.momentum

    def shown(mean: Any, inverse: Any, moving_mean: Any, moving_var: Any) -> Any:
        var = 1 / (inverse * inverse) - p.eps
        var = X.where(var > 0.0, var, 0.0)
        visible = inverse if op.shown_inverted(p) else var
        return visible, moving_mean * kept + mean * new, moving_var * kept + var * new

    def steps(pieces: _Pieces) -> Any:
        inverse, before = pieces.vector(channels), []
        gamma: Parameter = (Kind.INPUT, 1)
        if p.fix_gamma:
            gamma = pieces.vector(channels)
            before.append(_vectors("norm_ones", lambda: 1.0, channels, [], [gamma]))
        y, mean = (Kind.OUTPUT, 0), (Kind.OUTPUT, 1)
        moving: list[Parameter] = [(Kind.INPUT, 3), (Kind.INPUT, 4)]
        after = _vectors(
            "norm_moving", shown, channels, [mean, inverse, *moving], [(Kind.OUTPUT, 2), *moving]
        )
        return before, ((Kind.INPUT, 0), y, gamma, (Kind.INPUT, 2), mean, inverse), (y, mean), [after]

    return _plan(call, norms.batch_norm_steps(call), steps)


def backward_batch_norm(call: KernelCall) -> Any:
    """out_grad, data, gamma, mean, var, moving_mean, moving_var -> data_grad, gamma_grad, beta_grad."""
    p: Any = call.params
    forward: Any = call.op.backward_of
    channels = call.inputs[2].shape[0]

    def steps(pieces: _Pieces) -> Any:
        inverse: Parameter = (Kind.INPUT, 4)
        gamma: Parameter = (Kind.INPUT, 2)
        made: tuple[Parameter, ...] = ((Kind.OUTPUT, 1), (Kind.OUTPUT, 2), (Kind.OUTPUT, 0))
        before, after, results = [], [], made
        if not forward.shown_inverted(p):
            inverse = pieces.vector(channels)
            root = _vectors(
                "norm_inverse", lambda v: 1 / X.sqrt(v + p.eps), channels, [(Kind.INPUT, 4)], [inverse]
            )
            before.append(root)
        if p.fix_gamma:
            gamma = pieces.vector(channels)
            before.append(_vectors("norm_ones", lambda: 1.0, channels, [], [gamma]))
            after.append(_vectors("norm_zeros", lambda: 0.0, channels, [], [made[0]]))
            results = made[1:]
            made = (pieces.vector(channels), *made[1:])
        places = ((Kind.INPUT, 1), (Kind.INPUT, 0), gamma, (Kind.INPUT, 3), inverse, *made)
        return before, places, results, after

    return _plan(call, norms.backward_batch_norm_steps(call), steps)


def layer_norm(call: KernelCall) -> Any:
    """data, gamma, beta -> output, mean, std along the last axis."""
    rows = prod(call.outputs[1].shape)

    def steps(pieces: _Pieces) -> Any:
        inverse, y, mean = pieces.vector(rows), (Kind.OUTPUT, 0), (Kind.OUTPUT, 1)
        after = _vectors("norm_std", lambda i: 1 / i, rows, [inverse], [(Kind.OUTPUT, 2)])
        return [], ((Kind.INPUT, 0), y, (Kind.INPUT, 1), (Kind.INPUT, 2), mean, inverse), (y, mean), [after]

    return _plan(call, norms.layer_norm_steps(call), steps)


def backward_layer_norm(call: KernelCall) -> Any:
    """out_grad, data, gamma, mean, std -> data_grad, gamma_grad, beta_grad."""
    rows = prod(call.inputs[4].shape)

    def steps(pieces: _Pieces) -> Any:
        inverse = pieces.vector(rows)
        before = _vectors("norm_of_std", lambda s: 1 / s, rows, [(Kind.INPUT, 4)], [inverse])
        results = ((Kind.OUTPUT, 1), (Kind.OUTPUT, 2), (Kind.OUTPUT, 0))
        places = ((Kind.INPUT, 1), (Kind.INPUT, 0), (Kind.INPUT, 2), (Kind.INPUT, 3), inverse, *results)
        return [before], places, results, []

    return _plan(call, norms.backward_layer_norm_steps(call), steps)
