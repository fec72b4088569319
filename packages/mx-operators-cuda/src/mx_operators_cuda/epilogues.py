# SPDX-License-Identifier: Apache-2.0
"""What follows a matrix product in one pass: by cuBLASLt where it serves, else by a kernel of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.errors import MXNetError
from mx_operators_cuda import blas
from mx_operators_cuda.launch import Finished, Kind, Parameter, Product, Step

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32"))
#: bytes of workspace at most: what NVIDIA recommends for GPUs of capability 9.0
WORKSPACE = 32 << 20
#: bytes of which a workspace begins at a multiple
ALIGNMENT = 256


def finished(
    call: KernelCall,
    product: Sequence[Any],
    bias: Parameter | None,
    relu: bool,
    instead: Sequence[Step],
    scratch: Sequence[int] = (),
) -> tuple[list[Step], list[int]]:
    """Steps of relu(product + bias), and bytes of each piece of scratch memory.

    Parameters
    ----------
    product : sequence of Product
        One, or none where there is nothing to multiply.
    instead : sequence of Step
        What serves where cuBLASLt does not, with `scratch`.
    """
    steps, sizes = list(instead), list(scratch)
    if (bias is None and not relu) or len(product) != 1 or not blas.has_epilogues():
        return steps, sizes
    (one,) = product
    if not isinstance(one, Product) or one.dtype not in _FLOATS or one.batch != 1:
        return steps, sizes
    plan = _plan(call, one, bias is not None, relu)
    if plan is None:
        return steps, sizes
    workspace: Parameter = (Kind.SCRATCH, len(sizes))
    step = Finished(one, bias, relu, plan, workspace, len(steps))
    return [step, *steps], [*sizes, plan.workspace + ALIGNMENT]


def _plan(call: KernelCall, product: Product, bias: bool, relu: bool) -> Any:
    """cuBLASLt's plan, or None where it has no algorithm."""
    from mx_operators_cuda import _native

    try:
        return _native.ProductPlan(
            dtype=product.dtype, transposed=product.transposed, sizes=product.sizes, rows=product.rows, bias=bias,
            relu=relu, workspace=WORKSPACE, gpu=call.context.device_id,
        )  # fmt: skip
    except MXNetError:
        return None
