# SPDX-License-Identifier: Apache-2.0
"""im2col and col2im on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from mx_operators.nn.window import geometry, out_extents
from mx_operators_cuda import folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def _plan(call: KernelCall, function: str, image: tuple[int, ...]) -> Any:
    p: Any = call.params
    x, y = call.inputs[0], call.outputs[0]
    if not folds.floating((x, y)) or x.dtype != y.dtype:
        return None
    stride, dilate, pad = geometry(p)
    out = out_extents(p, image[2:])

    def three(values: Sequence[int], missing: int) -> list[int]:
        return [*(missing,) * (3 - len(values)), *values]

    numbers = [
        *image[:2], *three(image[2:], 1), *three(p.kernel, 1), *three(stride, 1), *three(dilate, 1), *three(pad, 0),
        *three(out, 1),
    ]  # fmt: skip
    windows = written.struct("columns::Windows", [written.number(n) for n in numbers])
    arguments = [written.read((Kind.INPUT, 0), x.dtype), written.write((Kind.OUTPUT, 0), y.dtype), windows]
    n, types = prod(y.shape), [written.value_type(x.dtype), names.STORAGE[x.dtype]]
    steps = [written.launch(call.op.name, f"columns::{function}", types, arguments, n)] if n else []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)


def im2col(call: KernelCall) -> Any:
    """Windows as columns."""
    return _plan(call, "unfold", call.inputs[0].shape)


def col2im(call: KernelCall) -> Any:
    """Columns added up in an image: col2im, and the gradient of im2col."""
    return _plan(call, "fold", call.outputs[0].shape)
