# SPDX-License-Identifier: Apache-2.0
"""softmax(scale · query keyᵀ) value in inference as one graph of cuDNN, in 16 bits, whose scores stay on the chip."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Opcode
from mx_operators_cuda import cudnn, folds
from mx_operators_cuda.folds import Operand, Rows
from mx_operators_cuda.launch import Kind, Launch, Library, Parameter, Product, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

#: the first version that has this as one operation
SINCE = (9, 13, 1)
#: cuDNN has plans for float32, too, which round it to TensorFloat-32
_NARROW = frozenset(dtypes.code(n) for n in ("float16", "bfloat16"))
#: bytes of which a workspace begins at a multiple
ALIGNMENT = 256
#: bytes of workspace at most: none of the plans for common extents needs more than 256
WORKSPACE = 16 << 20


@dataclass(frozen=True)
class Signature:
    """All that a plan of cuDNN depends on but the GPU.

    Parameters
    ----------
    code : int
        Type code of all tensors.
    extents : (int, int, int, int, int, int)
        Examples, heads, rows of the query, and of key and value; elements of a head in query and key, and in value.
    scale : float
        Of the scores.
    """

    code: int
    extents: tuple[int, int, int, int, int, int]
    scale: float

    @property
    def called(self) -> str:
        """What it computes, for messages."""
        return "attention"

    def plan(self, gpu: int | None, properties: str = "") -> Any:
        """cuDNN's plan for a GPU, or for one that `properties` describe; such a plan is not run.

        Raises
        ------
        NoKernelError  cuDNN has none
        MXNetError  it failed
        """
        from mx_operators_cuda import _native

        return _native.AttentionPlan(
            dtype=self.code,
            extents=self.extents,
            scale=self.scale,
            workspace=WORKSPACE,
            gpu=gpu,
            properties=properties,
        )


def signature(call: KernelCall) -> Signature | None:
    """What cuDNN is asked for, or None for what it is not: wider types, or nothing to compute."""
    p: Any = call.params
    specs = (*call.inputs, *call.outputs)
    query, _, value = call.inputs
    if {spec.dtype for spec in specs} - _NARROW or len({spec.dtype for spec in specs}) != 1:
        return None
    if any(spec.layout or 0 in spec.shape for spec in specs):
        return None
    (batch, queries, depth), (_, keys, width) = query.shape, value.shape
    if depth % p.heads or width % p.heads:
        return None
    extents = (batch, p.heads, queries, keys, depth // p.heads, width // p.heads)
    return Signature(query.dtype, extents, float(p.scale))


def attend(call: KernelCall) -> Any:
    """query, key, value -> output.

    Declined where cuDNN has no plan, or has compiled many for other lengths: the graph then keeps the operators apart.
    """
    made = signature(call)
    if made is None or not cudnn.installed() or cudnn.version() < SINCE:
        return None
    heads, depth, width = made.extents[1], *made.extents[4:]
    layer = replace(made, extents=(0, heads, 0, 0, depth, width))
    plan = cudnn.planned_size(made, layer, call.context.device_id)
    if plan is None:
        return None
    instead, scratch = _own(made)
    places: tuple[Parameter, ...] = (*((Kind.INPUT, i) for i in range(3)), (Kind.OUTPUT, 0))
    library = Library(plan, None, places, places[3:], (Kind.SCRATCH, len(scratch)), 0, len(instead))
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [library, *instead],
        scratch=[*scratch, plan.workspace + ALIGNMENT],
    )  # fmt: skip


def _own(what: Signature) -> tuple[list[Launch | Product], list[int]]:
    """Scores by cuBLAS, their softmax, and its product with the values, for the runs that cuDNN does not serve."""
    batch, heads, queries, keys, depth, width = what.extents
    item, code = dtypes.itemsize(what.code), what.code
    query, key, value, output = (Kind.INPUT, 0), (Kind.INPUT, 1), (Kind.INPUT, 2), (Kind.OUTPUT, 0)
    square = queries * keys

    def head(place: Parameter, width: int, i: int) -> Parameter:
        return (place[0], place[1], i * width * item)

    def scores(i: int) -> Parameter:
        return (Kind.SCRATCH, 0, i * batch * square * item)

    steps: list[Launch | Product] = [
        Product(head(query, depth, i), head(key, depth, i), scores(i), code, (False, True), (queries, keys, depth),
                (heads * depth, heads * depth, keys), (queries * heads * depth, keys * heads * depth, square), batch)
        for i in range(heads)
    ]  # fmt: skip
    rows = Operand((Kind.SCRATCH, 0), code)
    softmax, parts = folds.launches(
        "attention_softmax", Rows.along((heads * batch * queries, keys), 1), [rows], [rows],
        [[(Opcode.MAXIMUM, lambda x, k, n: x * what.scale)],
         [(Opcode.ADD, lambda x, k, n, m: X.exp(x * what.scale - m))]],
        lambda x, k, n, m, s: X.exp(x * what.scale - m) / s, scratch=1,
    )  # fmt: skip
    steps += softmax
    steps += [
        Product(scores(i), head(value, width, i), head(output, width, i), code, (False, False),
                (queries, width, keys), (keys, heads * width, heads * width),
                (square, keys * heads * width, queries * heads * width), batch)
        for i in range(heads)
    ]  # fmt: skip
    return steps, [heads * batch * square * item, *parts]
