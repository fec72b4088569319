# SPDX-License-Identifier: Apache-2.0
"""Inverses, determinants, Cholesky factors and triangular systems on a GPU, in double.

No kernel can raise an error about a value it reads: a matrix that has no inverse or factor gives infinities or NaN.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_operators_cuda import folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

#: threads that work on one matrix
_BLOCK = 128
_WORK = written.Argument("{0}", (("double*", (Kind.SCRATCH, 0)),))


def _alike(call: KernelCall) -> bool:
    specs = (*call.inputs, *call.outputs)
    return folds.floating(specs) and len({s.dtype for s in specs}) == 1


def _plan(
    call: KernelCall,
    function: str,
    shape: tuple[int, ...],
    between: list[written.Argument],
    *,
    wide: int = 1,
    absent: int = 0,
    second: bool = False,
) -> Any:
    """A block per matrix of a shape; the inputs, `absent` ones, work, the outputs, more arguments, and the sizes."""
    if not _alike(call):
        return None
    n, batch, code = shape[-1], prod(shape[:-2]), call.inputs[0].dtype
    outputs = [written.write((Kind.OUTPUT, o), code) for o in range(len(call.outputs))]
    if second and len(outputs) == 1:
        outputs.append(written.Argument(f"static_cast<{names.STORAGE[code]}*>(nullptr), 0", ()))
    arguments = [
        *(written.read((Kind.INPUT, i), code) for i in range(len(call.inputs))), *(written.absent(code),) * absent,
        _WORK, *outputs, *between, written.number(batch), written.number(n),
    ]  # fmt: skip
    steps = [
        written.launch(
            call.op.name, f"factor::{function}", [names.STORAGE[code]], arguments, batch * _BLOCK, block=_BLOCK,
            barriers=True,
        )
    ] if batch and (n or second) else []  # fmt: skip
    return make_plan(
        call.op.name,
        call.context,
        call.inputs,
        call.outputs,
        steps,
        scratch=[max(8 * wide * batch * n * n, 8)],
    )


def inverse(call: KernelCall) -> Any:
    """Inverses."""
    return _plan(call, "inverse", call.inputs[0].shape, [], wide=2, absent=1)


def determinant(call: KernelCall) -> Any:
    """Determinants, or signs and logarithms."""
    return _plan(call, "determinant", call.inputs[0].shape, [], second=True)


def backward_logarithm(call: KernelCall) -> Any:
    """head of the logarithm, A -> the transposed inverse times the head."""
    head, a = call.inputs
    if not _alike(call):
        return None
    n, batch, code = a.shape[-1], prod(a.shape[:-2]), a.dtype
    arguments = [
        written.read((Kind.INPUT, 1), code), written.read((Kind.INPUT, 0), head.dtype), _WORK,
        written.write((Kind.OUTPUT, 0), code), written.number(batch), written.number(n),
    ]  # fmt: skip
    made = written.launch(
        call.op.name,
        "factor::inverse",
        [names.STORAGE[code]],
        arguments,
        batch * _BLOCK,
        block=_BLOCK,
        barriers=True,
    )
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [made] if batch * n else [],
        scratch=[max(16 * batch * n * n, 8)],
    )  # fmt: skip


def _lower(call: KernelCall) -> list[written.Argument]:
    p: Any = call.params
    return [written.number(int(p.lower))]


def cholesky(call: KernelCall) -> Any:
    """The factor of symmetric, positive definite matrices."""
    return _plan(call, "cholesky", call.inputs[0].shape, _lower(call))


def backward_cholesky(call: KernelCall) -> Any:
    """out_grad, factor -> the gradient of the matrix."""
    return _plan(call, "backward_cholesky", call.inputs[0].shape, _lower(call))


def inverse_of_product(call: KernelCall) -> Any:
    """The inverse of a factor times its transpose."""
    return _plan(call, "inverse_of_product", call.inputs[0].shape, _lower(call))


def solve(call: KernelCall) -> Any:
    """A triangle, B -> X with op(A) · X = alpha · B, or X · op(A) = alpha · B."""
    p: Any = call.params
    b = call.inputs[1]
    if not _alike(call):
        return None
    (batch, rows, columns), code = (prod(b.shape[:-2]), *b.shape[-2:]), b.dtype
    flags = (int(p.transpose), int(p.lower), int(p.rightside))
    arguments = [
        written.read((Kind.INPUT, 0), code), written.read((Kind.INPUT, 1), code), _WORK,
        written.write((Kind.OUTPUT, 0), code), written.scalar(0),
        *(written.number(x) for x in (*flags, batch, rows, columns)),
    ]  # fmt: skip
    systems, n = batch * (rows if p.rightside else columns), prod(b.shape)
    made = written.launch(call.op.name, "factor::solve", [names.STORAGE[code]], arguments, systems)
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [made] if n else [], n_scalars=1,
        scratch=[max(8 * n, 8)],
    )  # fmt: skip


def backward_determinant(call: KernelCall) -> Any:
    """head, A -> the cofactors times the head."""
    if not _alike(call):
        return None
    n, batch, code = call.inputs[1].shape[-1], prod(call.inputs[1].shape[:-2]), call.inputs[1].dtype
    arguments = [
        *(written.read((Kind.INPUT, i), code) for i in (0, 1)), _WORK, written.write((Kind.OUTPUT, 0), code),
        written.number(batch), written.number(n),
    ]  # fmt: skip
    made = written.launch(
        call.op.name, "cofactors::cofactors", [names.STORAGE[code]], arguments, batch * _BLOCK, block=_BLOCK,
        barriers=True,
    )  # fmt: skip
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [made] if batch * n else [],
        scratch=[max(8 * batch * (2 * n + 3) * n, 8)],
    )  # fmt: skip
