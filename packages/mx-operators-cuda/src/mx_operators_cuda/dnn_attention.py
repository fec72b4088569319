# SPDX-License-Identifier: Apache-2.0
"""softmax(scale · query keyᵀ) value and its gradient as graphs of cuDNN, in 16 bits, whose scores stay on the chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_operators_cuda import attention_steps, cudnn
from mx_operators_cuda.attention_steps import Attention
from mx_operators_cuda.launch import Kind, Library, Parameter, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

#: the first version that has this as one operation
SINCE = (9, 13, 1)
#: the first version whose gradient takes any number of rows of the key
TRAINS_SINCE = (9, 15, 1)
#: cuDNN has plans for float32, too, which round it to TensorFloat-32
_NARROW = frozenset(dtypes.code(n) for n in ("float16", "bfloat16"))
#: bytes of which a workspace begins at a multiple
ALIGNMENT = 256
#: bytes of workspace at most, besides a gradient's scores: none of the plans for common extents needs more than 256
WORKSPACE = 16 << 20


class Stage(IntEnum):
    """What is made; the numbers of `csrc/attention_graph.hpp`."""

    INFERENCE = 0  #: the output
    TRAINING = 1  #: the output, and the statistics that the gradient reads
    GRADIENT = 2  #: the gradients of query, key and value


@dataclass(frozen=True)
class Signature(Attention):
    """All that a plan of cuDNN depends on but the GPU.

    Parameters
    ----------
    stage : Stage
    """

    stage: Stage = Stage.INFERENCE

    @property
    def called(self) -> str:
        """What it computes, for messages."""
        return "attention" if self.stage is not Stage.GRADIENT else "the gradient of an attention"

    @property
    def most_workspace(self) -> int:
        """Bytes: a gradient keeps those of the scores, in blocks of rows."""
        batch, heads, queries, keys = self.extents[:4]
        scores = batch * heads * -(-queries // 128) * -(-keys // 128) * 128 * 128 * dtypes.itemsize(self.code)
        return WORKSPACE + (scores if self.stage is Stage.GRADIENT else 0)

    def plan(self, gpu: int | None, properties: str = "") -> Any:
        """cuDNN's plan for a GPU, or for one that `properties` describe; such a plan is not run.

        Raises
        ------
        NoKernelError  cuDNN has none
        MXNetError  it failed
        """
        from mx_operators_cuda import _native

        return _native.AttentionPlan(
            stage=int(self.stage),
            dtype=self.code,
            extents=self.extents,
            scale=self.scale,
            workspace=self.most_workspace,
            gpu=gpu,
            properties=properties,
        )


def signature(call: KernelCall, stage: Stage = Stage.INFERENCE) -> Signature | None:
    """What cuDNN is asked for, or None for what it is not: wider types, scales below 0, nothing to compute."""
    p: Any = call.params
    names = (*call.op.inputs(p), *call.op.outputs(p))
    named = dict(zip(names, (*call.inputs, *call.outputs), strict=True))
    specs = [spec for name, spec in named.items() if name != "statistics"]
    query, value = named["query"], named["value"]
    if {spec.dtype for spec in specs} - _NARROW or len({spec.dtype for spec in specs}) != 1:
        return None
    if any(spec.layout or 0 in spec.shape for spec in specs):
        return None
    (batch, queries, depth), (_, keys, width) = query.shape, value.shape
    if depth % p.heads or width % p.heads:
        return None
    if not 0 < p.scale < inf:  # a kernel may take the largest product for the largest score
        return None
    if stage is Stage.GRADIENT and queries == keys == 1:  # NVIDIA's frontend refuses it
        return None
    extents = (batch, p.heads, queries, keys, depth // p.heads, width // p.heads)
    return Signature(query.dtype, extents, float(p.scale), stage)


def attend(call: KernelCall) -> Any:
    """query, key, value -> output.

    Declined where cuDNN has no plan, or has compiled many for other lengths: the graph then keeps the operators apart.
    """
    made = signature(call)
    if made is None:
        return None
    return _plan(call, made, attention_steps.forward(made), _places(3, 1))


def attend_in_training(call: KernelCall) -> Any:
    """query, key, value -> output, statistics; declined where `attend` is."""
    made = signature(call, Stage.TRAINING)
    if made is None:
        return None
    return _plan(call, made, attention_steps.forward(made, (Kind.OUTPUT, 1)), _places(3, 2))


def backward(call: KernelCall) -> Any:
    """out_grad, query, key, value, output, statistics -> gradients of query, key, value; declined like `attend`."""
    made = signature(call, Stage.GRADIENT)
    if made is None:
        return None
    batch, heads, queries = made.extents[:3]
    own = attention_steps.gradient(made)
    sums: Parameter = (Kind.SCRATCH, len(own[1]) + 1)  # behind the workspace
    places = _places(6, 3)
    places = (*places[1:5], places[0], *places[5:], sums)
    return _plan(call, made, own, places, [batch * heads * queries * 4])


def _places(inputs: int, outputs: int) -> tuple[Parameter, ...]:
    return (*((Kind.INPUT, i) for i in range(inputs)), *((Kind.OUTPUT, o) for o in range(outputs)))


def _plan(
    call: KernelCall,
    made: Signature,
    own: attention_steps.Steps,
    places: tuple[Parameter, ...],
    more: Sequence[int] = (),
) -> Any:
    """cuDNN's plan, with a workspace and `more` memory; runs that it does not serve have our steps' scores instead."""
    since = SINCE if made.stage is Stage.INFERENCE else TRAINS_SINCE
    if not cudnn.installed() or cudnn.version() < since:
        return None
    heads, depth, width = made.extents[1], *made.extents[4:]
    layer = replace(made, extents=(0, heads, 0, 0, depth, width))
    plan = cudnn.planned_size(made, layer, call.context.device_id)
    if plan is None:
        return None
    instead, spare = own
    results = tuple(place for place in places if place[0] is Kind.OUTPUT)
    library = Library(plan, None, places, results, (Kind.SCRATCH, len(spare)), 0, len(instead))
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [library, *instead],
        scratch=[*spare, plan.workspace + ALIGNMENT, *more], spare=len(spare),
    )  # fmt: skip
