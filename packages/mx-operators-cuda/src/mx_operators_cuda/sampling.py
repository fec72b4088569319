# SPDX-License-Identifier: Apache-2.0
"""Images read between their pixels on a GPU: sampling points, bilinear samples, images of other extents."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_operators_cuda import folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, Launch, make_plan
from mx_operators_cuda.sort import Keys, order

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_INT32 = dtypes.code("int32")
_CORNERS, _BORDERS, _WINDOWS = range(3)


def _images(data: tuple[int, ...], rows: int, columns: int) -> written.Argument:
    return written.struct("sampling::Images", [written.number(n) for n in (*data, rows, columns)])


def _alike(call: KernelCall) -> bool:
    """Everything is plain and of one floating-point type."""
    specs = (*call.inputs, *call.outputs)
    return folds.floating(specs) and len({s.dtype for s in specs}) == 1


def _plan(call: KernelCall, steps: list[Launch], scratch: tuple[int, ...] = ()) -> Any:
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def _launch(
    call: KernelCall,
    function: str,
    types: list[str],
    reads: list[written.Argument],
    output: int,
    rest: list[written.Argument],
    threads: int = 0,
) -> list[Launch]:
    """A thread per element of an output, or `threads`; none for no elements."""
    spec = call.outputs[output]
    n = threads or prod(spec.shape)
    arguments = [*reads, written.write((Kind.OUTPUT, output), spec.dtype), *rest]
    made = written.launch(call.op.name, f"sampling::{function}", types, arguments, n)
    return [made] if prod(spec.shape) else []


def grid(call: KernelCall) -> Any:
    """Matrices, or displacements in pixels -> points."""
    p: Any = call.params
    (data, output) = (*call.inputs, *call.outputs)
    if not _alike(call):
        return None
    shape = (output.shape[0], 1, 1, 1)
    rest = [_images(shape, *output.shape[2:])]
    if p.transform_type == "warp":
        rest.insert(0, written.number(0))
    reads, stored = [written.read((Kind.INPUT, 0), data.dtype)], [names.STORAGE[data.dtype]]
    return _plan(call, _launch(call, p.transform_type, stored, reads, 0, rest))


def backward_grid(call: KernelCall) -> Any:
    """Gradient of the points -> that of matrices or displacements."""
    p: Any = call.params
    head = call.inputs[0]
    if not _alike(call):
        return None
    rest = [_images((head.shape[0], 1, 1, 1), *head.shape[2:])]
    function = "backward_affine"
    if p.transform_type == "warp":
        rest.insert(0, written.number(1))
        function = "warp"
    reads, stored = [written.read((Kind.INPUT, 0), head.dtype)], [names.STORAGE[head.dtype]]
    return _plan(call, _launch(call, function, stored, reads, 0, rest))


def _sampled(call: KernelCall, points: str) -> Any:
    data, output = call.inputs[0], call.outputs[0]
    if not _alike(call):
        return None
    stored = names.STORAGE[data.dtype]
    types = [written.value_type(data.dtype), stored, f"mx::sampling::{points}<{stored}>"]
    reads = [written.read((Kind.INPUT, i), data.dtype) for i in (0, 1)]
    return _plan(call, _launch(call, "sampled", types, reads, 0, [_images(data.shape, *output.shape[2:])]))


def sample(call: KernelCall) -> Any:
    """data, grid -> data at the points of the grid."""
    return _sampled(call, "Grid")


def transform(call: KernelCall) -> Any:
    """data, matrices -> data at the points of affine maps."""
    return _sampled(call, "Affine")


def backward_sample(call: KernelCall) -> Any:
    """out_grad, data, grid -> data_grad, grid_grad."""
    head, data, points = call.inputs
    corners = 4 * prod(points.shape[2:])
    images = data.shape[0]
    if not _alike(call) or corners * max(images, 1) >= 1 << 31 or prod(data.shape[2:]) >= 1 << 31:
        return None
    code, name = data.dtype, call.op.name
    value, stored = written.value_type(code), names.STORAGE[code]
    shape = _images(data.shape, *points.shape[2:])
    heads, at = written.read((Kind.INPUT, 0), code), written.read((Kind.INPUT, 2), code)
    reads = [heads, written.read((Kind.INPUT, 1), code), at]
    steps = _launch(call, "backward_points", [value, stored], reads, 1, [shape], images * corners // 4)
    scratch: tuple[int, ...] = ()
    if prod(data.shape):
        pixels = written.Argument("{0}", (("mx::int32*", (Kind.SCRATCH, 0)),))
        where = written.read((Kind.SCRATCH, 0), _INT32)
        if corners:
            found = order(name, Keys(images, corners, 1), (Kind.SCRATCH, 0), _INT32, scratch=1)
            steps.append(
                written.launch(name, "sampling::pixels", [stored], [at, pixels, shape], images * corners)
            )
            steps += found.steps
            sorted_, scratch = found.place, (4 * images * corners, *found.scratch)
        else:
            sorted_, scratch = (Kind.SCRATCH, 1), (4, 4)
        reads = [heads, at, where, written.read(sorted_, _INT32)]
        steps += _launch(call, "backward_data", [value, stored], reads, 0, [shape])
    return _plan(call, steps, scratch)


def _method(call: KernelCall) -> int:
    p: Any = call.params
    if not hasattr(p, "align_corners"):
        return _WINDOWS
    return _CORNERS if p.align_corners else _BORDERS


def _resized(call: KernelCall, function: str, large: tuple[int, ...], small: tuple[int, ...]) -> Any:
    x, y = call.inputs[0], call.outputs[0]
    if not folds.floating((x, y)) or x.dtype != y.dtype:
        return None
    rest = [written.number(_method(call)), _images(large, *small[2:])]
    types = [written.value_type(x.dtype), names.STORAGE[x.dtype]]
    return _plan(call, _launch(call, function, types, [written.read((Kind.INPUT, 0), x.dtype)], 0, rest))


def resize(call: KernelCall) -> Any:
    """data -> data of other extents."""
    return _resized(call, "resized", call.inputs[0].shape, call.outputs[0].shape)


def backward_resize(call: KernelCall) -> Any:
    """out_grad -> data_grad."""
    return _resized(call, "backward_resized", call.outputs[0].shape, call.inputs[0].shape)
