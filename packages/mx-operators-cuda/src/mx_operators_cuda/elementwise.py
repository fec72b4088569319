# SPDX-License-Identifier: Apache-2.0
"""The kernel generator of device `gpu`: any elementwise expression as one CUDA kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_core.expression import Expression
from mx_operators_cuda.codegen import KernelSource, Layout, layout_of, write_kernel
from mx_operators_cuda.codegen.source import BLOCK, strided_axes

if TYPE_CHECKING:
    import numpy as np

    from mx_core.context import Context
    from mx_core.kernels import KernelCall, TensorSpec
    from mx_core.operator.property import ReferenceContext

#: what is done with an output, `mx_req` of mx_core/abi.h
NULL, WRITE, INPLACE, ADD = range(4)
#: enough blocks to fill a multiprocessor; the kernel's loop does the rest
BLOCKS_PER_MULTIPROCESSOR = 16


def generate(expression: Expression, call: KernelCall) -> ElementwisePlan | None:
    """A plan that evaluates `expression` in one pass; compiled at its first run.

    Returns
    -------
    ElementwisePlan, or None for opaque layouts, outputs of different shapes and element types
    without elementwise computation

    Raises
    ------
    ShapeError  an input does not broadcast to the outputs
    """
    shapes = {spec.shape for spec in call.outputs}
    if len(shapes) != 1 or any(spec.layout for spec in (*call.inputs, *call.outputs)):
        return None
    layout = layout_of(shapes.pop(), [spec.shape for spec in call.inputs])
    try:
        source = write_kernel(
            "mx_" + re.sub(r"\W", "_", call.op.name), expression,
            [spec.dtype for spec in call.inputs], [spec.dtype for spec in call.outputs], layout,
        )  # fmt: skip
    except TypeError:
        return None
    return ElementwisePlan(source, layout, call.inputs, call.outputs, expression.n_scalars, call.context)


@dataclass(frozen=True)
class ElementwisePlan:
    """An elementwise kernel for one signature. Immutable; threads may share it.

    Called as a kernel function, `plan(ctx, inputs)`, it returns new CuPy arrays; `run` writes to
    given ones.
    """

    source: KernelSource
    layout: Layout
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    n_scalars: int
    context: Context

    def __call__(self, ctx: ReferenceContext, inputs: Sequence[Any]) -> list[Any]:
        """New arrays of `outputs`; enqueued on CuPy's current stream."""
        from mx_operators_cuda import launch

        outputs = [launch.empty(spec, self.context) for spec in self.outputs]
        self.run(inputs, outputs, scalars=ctx.scalars)
        return outputs

    def run(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        requests: Sequence[int] | None = None,
        scalars: Sequence[float] = (),
        stream: Any = None,
    ) -> None:
        """Enqueues the kernel; does not wait for it.

        Parameters
        ----------
        inputs, outputs : sequence of cupy.ndarray
            C-contiguous, on the plan's device, of its shapes and types. An output may be an input
            of its shape (`INPLACE`).
        requests : sequence of int, optional
            NULL, WRITE, INPLACE or ADD per output; by default WRITE.
        scalars : sequence of float
            The run-time parameters, in order.
        stream : cupy.cuda.Stream, optional
            By default CuPy's current stream.

        Raises
        ------
        MXNetError                no GPU, no CuPy, or the kernel does not compile
        ShapeError, DTypeError    an array is not as the plan was made for
        ArgumentError             wrong number of arrays or scalars, a request that there is not, or
                                  an array that is not contiguous on the device
        """
        from mx_operators_cuda import launch

        requests = [WRITE] * len(self.outputs) if requests is None else list(requests)
        self._check(inputs, outputs, requests, scalars)
        if self.layout.elements == 0 or not any(requests):
            return
        arguments = self.arguments(
            [launch.address(x, f"input {i}", self.context) for i, x in enumerate(inputs)],
            [launch.address(y, f"output {o}", self.context) for o, y in enumerate(outputs)],
            requests, scalars,
        )  # fmt: skip
        launch.launch(self.source, self.context, self.blocks, BLOCK, arguments, stream)

    def blocks(self, multiprocessors: int) -> int:
        """Blocks of the launch on a device with that many multiprocessors."""
        threads = -(-self.layout.elements // self.source.pack)
        return max(1, min(-(-threads // BLOCK), BLOCKS_PER_MULTIPROCESSOR * multiprocessors))

    def arguments(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        requests: Sequence[int],
        scalars: Sequence[float],
    ) -> tuple[np.generic, ...]:
        """The kernel's arguments for arrays at these addresses; order: see `write_kernel`."""
        import numpy as np

        index = np.uint64 if self.layout.wide else np.uint32
        packed: list[np.generic] = [np.uint64(pointer) for pointer in inputs]
        for pointer, request in zip(outputs, requests, strict=True):
            packed += [np.uint64(pointer), np.int32(request)]
        packed += [np.float64(value) for value in scalars]
        packed.append(index(self.layout.elements))
        if not self.layout.flat:
            packed += [index(size) for size in self.layout.sizes[1:]]
            packed += [index(self.layout.strides[i][axis]) for i, axis in strided_axes(self.layout)]
        return tuple(packed)

    def _check(
        self, inputs: Sequence[Any], outputs: Sequence[Any], requests: Sequence[int], scalars: Sequence[float]
    ) -> None:
        from mx_operators_cuda import launch

        name = self.source.name
        for what, given, expected in (
            ("inputs", len(inputs), len(self.inputs)),
            ("outputs", len(outputs), len(self.outputs)),
            ("requests", len(requests), len(self.outputs)),
            ("scalars", len(scalars), self.n_scalars),
        ):
            if given != expected:
                raise ArgumentError(f"[{name}] expected {expected} {what}, got {given}")
        for request in requests:
            if request not in (NULL, WRITE, INPLACE, ADD):
                raise ArgumentError(f"[{name}] request: expected 0 to 3, got {request!r}")
        named = [(f"input {i}", x, s) for i, (x, s) in enumerate(zip(inputs, self.inputs, strict=True))]
        named += [(f"output {o}", y, s) for o, (y, s) in enumerate(zip(outputs, self.outputs, strict=True))]
        for what, array, spec in named:
            if not launch.is_array(array, self.context):
                got = type(array).__name__
                raise MXNetError(f"[{name}] {what}: expected a CuPy array, got {got}")
            _check_array(f"[{name}] {what}", array, spec)


def _check_array(where: str, array: Any, spec: TensorSpec) -> None:
    if tuple(array.shape) != spec.shape:
        raise ShapeError(f"{where}: expected shape {spec.shape}, got {tuple(array.shape)}")
    if dtypes.code(array.dtype) != spec.dtype:
        raise DTypeError(f"{where}: expected {dtypes.name(spec.dtype)}, got {array.dtype}")
    if not array.flags.c_contiguous:
        raise ArgumentError(f"{where}: expected a C-contiguous array; cupy.ascontiguousarray makes one")
