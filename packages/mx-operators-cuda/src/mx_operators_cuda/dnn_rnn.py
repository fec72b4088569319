# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers and their gradients by cuDNN, with our own kernels for what it declines.

What cuDNN keeps of a run for the gradient has no known size, and the operator's reserve one that all devices share.
So nothing is kept: the gradient runs the layers again, as cuDNN's in training, and the reserve is not written. For
that both or none are cuDNN's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.kernels import TensorSpec
from mx_operators.rnn.weights import directions
from mx_operators_cuda import cudnn, dnn, elementwise
from mx_operators_cuda import rnn as own
from mx_operators_cuda.launch import Kind, Launch, Library, Parameter, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32"))
#: cuDNN's numbers of the cells
_CELLS = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
#: bytes of which a workspace begins at a multiple
ALIGNMENT = 256


@dataclass(frozen=True)
class Signature:
    """All that a plan of cuDNN depends on but the GPU.

    Parameters
    ----------
    cell : str
        The operator's mode.
    gradient : bool
    code : int
        Type code of all tensors.
    both : bool
        Layers run in both directions.
    shows : bool
        The last states are outputs.
    extents : (int, int, int, int, int)
        Steps, sequences, elements of the data per step, units, layers.
    converts : bool
        Whether float32 may be rounded to TensorFloat-32.
    """

    cell: str
    gradient: bool
    code: int
    both: bool
    shows: bool
    extents: tuple[int, int, int, int, int]
    converts: bool

    @property
    def called(self) -> str:
        """What it computes, for messages."""
        return "recurrent layers"

    def plan(self, gpu: int) -> Any:
        """cuDNN's plan for a GPU.

        Raises
        ------
        NoKernelError  its parameters lie in another order than ours
        MXNetError  it failed
        """
        from mx_operators_cuda import _native

        return _native.RnnPlan(
            cell=_CELLS[self.cell], gradient=self.gradient, dtype=self.code, both=self.both, shows=self.shows,
            extents=self.extents, converts=self.converts, gpu=gpu,
        )  # fmt: skip


def signature(call: KernelCall) -> Signature | None:
    """What cuDNN is asked for, or None for what it is not.

    These are dropout between layers, whose masks are those of the reference, lengths of sequences, projections, and
    bounds of the cell state.
    """
    p: Any = call.params
    gradient = call.op.backward_of is not None
    data = call.inputs[own.data_of_backward(call) if gradient else 0]
    if not own.supported(call) or data.dtype not in _FLOATS or (p.p > 0 and p.num_layers > 1):
        return None
    steps, batch, inputs = data.shape
    extents = (steps, batch, inputs, p.state_size, p.num_layers)
    biggest = steps * batch * max(inputs, directions(p) * p.state_size)
    if 0 in extents or max(biggest, p.num_layers * directions(p) * batch * p.state_size) >= 1 << 31:
        return None
    return Signature(p.mode, gradient, data.dtype, p.bidirectional, p.state_outputs, extents, dnn.converts())


def _planned(call: KernelCall) -> Any:
    """cuDNN's plan where it has those of the layers and of their gradient."""
    what = signature(call)
    if what is None or not cudnn.installed():
        return None
    gpu = call.context.device_id
    other = cudnn.planned(replace(what, gradient=not what.gradient), gpu)
    return None if other is None else cudnn.planned(what, gpu)


def rnn(call: KernelCall) -> Any:
    """data, parameters, state[, state_cell] -> output[, last states]; the reserve is left as it is."""
    plan = _planned(call)
    if plan is None:
        return None
    p: Any = call.params
    n = len(call.inputs)
    results: list[Parameter] = [(Kind.OUTPUT, o) for o in range(n - 1 if p.state_outputs else 1)]
    return _plan(call, plan, [(Kind.INPUT, i) for i in range(n)], results, own.forward_stack(call))


def backward_rnn(call: KernelCall) -> Any:
    """Gradients of outputs, inputs, output, reserve -> gradients of data, parameters and states."""
    plan = _planned(call)
    if plan is None:
        return None
    heads, n = own.data_of_backward(call), len(call.outputs)
    places: list[Parameter] = [(Kind.INPUT, i) for i in (*range(heads, heads + n), *range(heads))]
    results: list[Parameter] = [(Kind.OUTPUT, o) for o in range(n)]
    return _plan(call, plan, places, results, own.backward_stack(call, again=True), [_zeros(call, 1)])


def _zeros(call: KernelCall, output: int) -> Launch:
    """Zeros in an output, to which cuDNN adds."""
    spec = call.outputs[output]
    flat = TensorSpec((prod(spec.shape),), spec.dtype)
    made = elementwise.kernel("zeros", elementwise.ZERO, [], [flat])
    assert made is not None
    return made.taking({
        (Kind.OUTPUT, 0): (Kind.OUTPUT, output), (Kind.REQUEST, 0): (Kind.REQUEST, output),
    })  # fmt: skip


def _plan(
    call: KernelCall, plan: Any, places: list[Parameter], results: list[Parameter], stack: own.Stack | None,
    before: list[Launch] | None = None,
) -> Any:  # fmt: skip
    """cuDNN's plan with our own kernels in its place for the runs that it declines."""
    assert stack is not None
    instead = stack.finished()
    workspace: Parameter = (Kind.SCRATCH, len(stack.scratch))
    library = Library(plan, None, (*places, *results), tuple(results), workspace, 0, len(instead))
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [*(before or ()), library, *instead],
        scratch=[*stack.scratch, plan.workspace + ALIGNMENT],
    )  # fmt: skip
