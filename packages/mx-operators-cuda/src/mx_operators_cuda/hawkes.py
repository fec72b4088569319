# SPDX-License-Identifier: Apache-2.0
"""Likelihoods of self-exciting point processes on a GPU, in double.

No kernel can raise an error about a value it reads: marks are limited to those that there are.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_operators_cuda import folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, Launch, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_WORK = written.Argument("{0}", (("double*", (Kind.SCRATCH, 0)),))
_MARKS = 5
#: numbers of each mark of a sequence in scratch memory
_ARRAYS = 6


def _given(call: KernelCall, first: int) -> written.Argument | None:
    """The eight inputs, or None for other types than one of floating point, and one of marks."""
    inputs = call.inputs[first : first + 8]
    marks = inputs[_MARKS]
    floats = [*(s for s in inputs if s is not marks), *call.inputs[:first], *call.outputs]
    if not folds.floating(floats) or len({s.dtype for s in floats}) > 1:
        return None
    if marks.layout or marks.dtype not in names.STORAGE:
        return None
    types = ", ".join(_types(call, first))
    reads = [written.read((Kind.INPUT, first + i), s.dtype) for i, s in enumerate(inputs)]
    return written.struct(f"hawkes::Given<{types}>", reads)


def _types(call: KernelCall, first: int) -> list[str]:
    return [names.STORAGE[call.inputs[first + i].dtype] for i in (0, _MARKS)]


def _sizes(call: KernelCall, first: int) -> tuple[int, int, written.Argument]:
    sequences, kinds = call.inputs[first].shape
    events = call.inputs[first + 4].shape[1]
    numbers = [written.number(n) for n in (sequences, kinds, events)]
    return sequences, kinds, written.struct("hawkes::Sizes", numbers)


def _plan(call: KernelCall, steps: list[Launch], first: int) -> Any:
    scratch = [max(8 * _ARRAYS * prod(call.inputs[first].shape), 8)]
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def likelihood(call: KernelCall) -> Any:
    """lda, alpha, beta, state, lags, marks, valid_length, max_time -> likelihoods, states at the end."""
    given = _given(call, 0)
    if given is None:
        return None
    sequences, _, sizes = _sizes(call, 0)
    code = call.inputs[0].dtype
    arguments = [given, _WORK, *(written.write((Kind.OUTPUT, o), code) for o in (0, 1)), sizes]
    made = written.launch(call.op.name, "hawkes::likelihood", _types(call, 0), arguments, sequences)
    return _plan(call, [made] if sequences else [], 0)


def backward_likelihood(call: KernelCall) -> Any:
    """out_grad, and the inputs -> the gradients of lda, alpha and beta."""
    given = _given(call, 1)
    if given is None:
        return None
    sequences, kinds, sizes = _sizes(call, 1)
    code, name = call.inputs[0].dtype, call.op.name
    arguments = [
        written.read((Kind.INPUT, 0), code),
        given,
        _WORK,
        written.write((Kind.OUTPUT, 0), code),
        sizes,
    ]
    steps = []
    if sequences * kinds:
        steps.append(written.launch(name, "hawkes::slopes", _types(call, 1), arguments, sequences))
    arguments = [_WORK, *(written.write((Kind.OUTPUT, o), code) for o in (1, 2)), sizes]
    if kinds:
        steps.append(written.launch(name, "hawkes::sums", [names.STORAGE[code]], arguments, kinds))
    return _plan(call, steps, 1)
