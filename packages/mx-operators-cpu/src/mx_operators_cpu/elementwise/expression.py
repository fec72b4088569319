# SPDX-License-Identifier: Apache-2.0
"""The kernel generator: any elementwise expression as a native plan."""

from __future__ import annotations

from mx_core.errors import NoKernelError
from mx_core.expression import Expression
from mx_core.kernels import KernelCall
from mx_operators_cpu.library import native


def generate(expression: Expression, call: KernelCall) -> object:
    """A plan that evaluates `expression` in one pass over its inputs.

    Returns
    -------
    capsule `mx.plan.v1`, or None for opcodes and element types without vector loops

    Raises
    ------
    ShapeError  an input does not broadcast to the outputs
    """
    try:
        return native.expression_plan(expression.serialized, call.inputs, call.outputs)
    except NoKernelError:
        return None
