# SPDX-License-Identifier: Apache-2.0
"""LQ factorizations, eigenvalues of symmetric matrices, and their gradients on a GPU, in double.

No kernel can raise an error about a value it reads: a matrix that is not finite gives NaN.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from mx_core import dtypes
from mx_operators_cuda import folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

#: threads that work on one matrix
_BLOCK = 128


def _plan(
    call: KernelCall, function: str, shape: tuple[int, ...], work: int, *numbers: written.Argument
) -> Any:
    """A block per matrix: the inputs, `work` doubles, the outputs, further arguments, and the sizes."""
    specs = (*call.inputs, *call.outputs)
    if not folds.floating(specs) or len({s.dtype for s in specs}) > 1:
        return None
    batch, code = prod(shape[:-2]), call.inputs[0].dtype
    sizes = shape[-2:] if function.endswith("lq") else shape[-1:]
    arguments = [
        *(written.read((Kind.INPUT, i), code) for i in range(len(call.inputs))),
        written.Argument("{0}", (("double*", (Kind.SCRATCH, 0)),)),
        *(written.write((Kind.OUTPUT, o), code) for o in range(len(call.outputs))),
        *numbers, *(written.number(n) for n in (batch, *sizes)),
    ]  # fmt: skip
    made = written.launch(
        call.op.name, f"orthogonal::{function}", [names.STORAGE[code]], arguments, batch * _BLOCK, block=_BLOCK,
        barriers=True,
    )  # fmt: skip
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [made] if prod(shape) else [],
        scratch=[max(8 * batch * work, 8)],
    )  # fmt: skip


def lq(call: KernelCall) -> Any:
    """A -> Q, L."""
    shape = call.inputs[0].shape
    m, n = shape[-2:]
    return _plan(call, "lq", shape, m * (2 * n + 1))


def backward_lq(call: KernelCall) -> Any:
    """gradients of Q and L, Q, L -> the gradient of the matrix."""
    shape = call.inputs[0].shape
    m, n = shape[-2:]
    return _plan(call, "backward_lq", shape, m * (m + n))


def eigen(call: KernelCall) -> Any:
    """A -> eigenvectors in rows, eigenvalues."""
    shape = call.inputs[0].shape
    n = shape[-1]
    return _plan(call, "eigen", shape, 2 * n * n + n + 1)


def backward_eigen(call: KernelCall) -> Any:
    """gradients of vectors and values, vectors, values -> the gradient of the matrix."""
    shape, dtype = call.inputs[0].shape, dtypes.numpy_dtype(call.inputs[0].dtype)
    epsilon = np.finfo(dtype if dtype.itemsize >= 4 else np.float32).eps
    return _plan(call, "backward_eigen", shape, 2 * shape[-1] ** 2, written.double(float(epsilon)))
