# SPDX-License-Identifier: Apache-2.0
"""Elements moved on a GPU: axes permuted, parts taken and written, arrays joined and cut.

What moves where is asked of the operators' references: given a NumPy array they return views of it,
and a view says where its elements lie. No element of the arrays is read, so their memory is never
touched. Writing into a part is the copy of that part in the other direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mx_core import operators
from mx_core.expression import Expression
from mx_core.operator.declaration import ReferenceContext
from mx_operators_cuda import elementwise
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.move import View, numbers, walk, write_move
from mx_operators_cuda.launch import Kind, Launch, Parameter, make_plan
from mx_operators_cuda.tiles import transposition

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall, TensorSpec

Array = npt.NDArray[np.uint8]


def arrays(specs: Sequence[TensorSpec]) -> list[Array]:
    """Arrays of some shapes, one byte an element, whose memory is never touched."""
    return [np.empty(spec.shape, np.uint8) for spec in specs]


def _views(name: str, params: Any, given: Sequence[Array]) -> list[View]:
    """What an operator's reference looks at of its first input, per output."""
    made = operators.get(name).reference(params, given, ReferenceContext())
    return [View.of(view, given[0]) for view in made]


def _whole(spec: TensorSpec) -> View:
    (array,) = arrays([spec])
    return View.of(array, array)


def _move(call: KernelCall, place: Parameter, source: View, target: View, output: int = 0) -> list[Launch]:
    """The copy of one view to another one; none of no elements."""
    way = walk(source, target)
    if way.elements == 0:
        return []
    scalar = place[0] is Kind.SCALAR
    if not scalar:
        tiled = transposition(call.op.name, place, call.outputs[output].dtype, way, source, target, output)
        if tiled is not None:
            return [tiled]
    symbol = elementwise.symbol(call.op.name)
    text = write_move(symbol, call.outputs[output].dtype, len(way.sizes), scalar)
    head: tuple[Parameter, ...] = (place, (Kind.OUTPUT, output), (Kind.REQUEST, output))
    given = ((Kind.UINT64, value) for value in numbers(way, source, target))
    return [Launch(text, way.elements, (*head, *given))]


def _plan(call: KernelCall, steps: Sequence[Launch], n_scalars: int = 0, adds: bool = True) -> Any:
    specs = (*call.inputs, *call.outputs)
    if any(spec.layout or spec.dtype not in names.STORAGE for spec in specs):
        return None
    if len({spec.dtype for spec in specs}) > 1:
        return None
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps, n_scalars=n_scalars, adds=adds
    )


def take(call: KernelCall) -> Any:
    """Every output is a view of the first input."""
    views = _views(call.op.name, call.params, arrays(call.inputs))
    steps = []
    for o, (view, spec) in enumerate(zip(views, call.outputs, strict=True)):
        steps += _move(call, (Kind.INPUT, 0), view, _whole(spec), o)
    return _plan(call, steps)


def put(call: KernelCall) -> Any:
    """The first input in a part of the output, zeros elsewhere: the gradient of a part."""
    taken = operators.get(call.op.name.removeprefix("_backward_"))
    params = call.params if isinstance(call.params, taken.Param) else taken.Param.parse({})
    # the operator whose gradient this is took its part of an array like the output
    given = [*arrays(call.outputs), *arrays(call.inputs[:1])]
    (part,) = _views(taken.name, params, given)
    return put_part(call, part)


def concat(call: KernelCall) -> Any:
    """Each input in its part of the output."""
    parts = _views("_backward_Concat", call.params, arrays([*call.outputs, *call.inputs]))
    return _join(call, parts)


def stack(call: KernelCall) -> Any:
    """Each input at its index of a new axis."""
    p: Any = call.params
    (whole,) = arrays(call.outputs)
    return _join(call, [View.of(part, whole) for part in np.moveaxis(whole, p.axis, 0)])


def _join(call: KernelCall, parts: Sequence[View]) -> Any:
    steps = []
    for i, (part, spec) in enumerate(zip(parts, call.inputs, strict=True)):
        steps += _move(call, (Kind.INPUT, i), _whole(spec), part)
    return _plan(call, steps)


def assign(call: KernelCall) -> Any:
    """The first input with the second, or a run-time number, written into a part of it."""
    p: Any = call.params
    (part,) = _views("slice", p, arrays(call.outputs))
    kept = elementwise.kernel(call.op.name, elementwise.identity(), call.inputs[:1], call.outputs)
    if kept is None:
        return None
    steps = [kept] if kept.threads else []
    if len(call.inputs) > 1:
        return _plan(call, [*steps, *_move(call, (Kind.INPUT, 1), _whole(call.inputs[1]), part)], adds=False)
    scalar = View(part.shape, (0,) * len(part.shape), 0)
    return _plan(call, [*steps, *_move(call, (Kind.SCALAR, 0), scalar, part)], n_scalars=1, adds=False)


# ---- repeated and rearranged ----


def between(call: KernelCall, look: Callable[[Array, Array], tuple[Array, Array]]) -> Any:
    """The copy between two views that `look` returns, of the first input and of the output."""
    x, y = arrays(call.inputs[:1])[0], arrays(call.outputs)[0]
    source, target = look(x, y)
    if y.size == 0:
        return _plan(call, [])
    return _plan(call, _move(call, (Kind.INPUT, 0), View.of(source, x), View.of(target, y)))


def repeat(call: KernelCall) -> Any:
    """Every element, or slice along an axis, several times."""
    p: Any = call.params

    def look(x: Array, y: Array) -> tuple[Array, Array]:
        x = x.reshape(-1) if p.axis is None else x
        axis = 0 if p.axis is None else p.axis % x.ndim
        head, tail = x.shape[: axis + 1], x.shape[axis + 1 :]
        target = (*head, p.repeats, *tail)
        return np.broadcast_to(x.reshape(*head, 1, *tail), target), y.reshape(target)

    return between(call, look)


def tiles(shape: Sequence[int], reps: Sequence[int]) -> list[int]:
    """Copies and extent of each axis, one after the other; missing ones are 1."""
    rank = max(len(shape), len(reps))
    copies = (*(1,) * (rank - len(reps)), *reps)
    return [n for pair in zip(copies, (*(1,) * (rank - len(shape)), *shape), strict=True) for n in pair]


def tile(call: KernelCall) -> Any:
    """The whole array several times."""
    p: Any = call.params

    def look(x: Array, y: Array) -> tuple[Array, Array]:
        target = tiles(x.shape, p.reps)
        once = [1 if i % 2 == 0 else n for i, n in enumerate(target)]
        return np.broadcast_to(x.reshape(once), target), y.reshape(target)

    return between(call, look)


def depth_to_space(call: KernelCall) -> Any:
    """Channels laid out as blocks."""
    p: Any = call.params
    (n, c, h, w), b = call.inputs[0].shape, p.block_size

    def look(x: Array, y: Array) -> tuple[Array, Array]:
        source = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
        return source, y.reshape(source.shape)

    return between(call, look)


def space_to_depth(call: KernelCall) -> Any:
    """Blocks laid out as channels."""
    p: Any = call.params
    (n, c, h, w), b = call.inputs[0].shape, p.block_size

    def look(x: Array, y: Array) -> tuple[Array, Array]:
        source = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
        return source, y.reshape(source.shape)

    return between(call, look)


def upsample(call: KernelCall) -> Any:
    """Pixels of one image repeated."""
    (n, c, h, w), scale = call.inputs[0].shape, call.outputs[0].shape[2] // max(call.inputs[0].shape[2], 1)
    target = (n, c, h, scale, w, scale)
    return between(
        call, lambda x, y: (np.broadcast_to(x.reshape(n, c, h, 1, w, 1), target), y.reshape(target))
    )


def backward_pad(call: KernelCall) -> Any:
    """The gradient without the constants that were put around; gradients of other modes are added up."""
    p: Any = call.params
    if p.mode != "constant":
        return None
    extents = call.outputs[0].shape
    cut = tuple(slice(a, a + e) for a, e in zip(p.pad_width[::2], extents, strict=True))
    return between(call, lambda x, y: (x[cut], y))


def pad(call: KernelCall) -> Any:
    """Data in the middle of a run-time number; edges and reflections are declined."""
    p: Any = call.params
    if p.mode != "constant":
        return None
    x, y = call.inputs[0], call.outputs[0]
    whole = arrays([y])[0]
    part = whole[tuple(slice(a, a + e) for a, e in zip(p.pad_width[::2], x.shape, strict=True))]
    number = elementwise.kernel(call.op.name, Expression(0, 1, (), (), (0,)), [], [y])
    if number is None:
        return None
    steps = [number] if number.threads else []
    if x.shape and 0 not in x.shape:
        steps += _move(call, (Kind.INPUT, 0), _whole(x), View.of(part, whole))
    return _plan(call, steps, n_scalars=1, adds=False)


def _rectangle(call: KernelCall, data: TensorSpec, extents: Sequence[int]) -> tuple[Any, ...]:
    """The part of images that `Crop` takes."""
    p: Any = call.params
    begins = p.offset
    if p.center_crop:
        begins = [(old - new) // 2 for old, new in zip(data.shape[2:], extents, strict=True)]
    return (..., *(slice(b, b + e) for b, e in zip(begins, extents, strict=True)))


def crop(call: KernelCall) -> Any:
    """A rectangle of every image."""
    cut = _rectangle(call, call.inputs[0], call.outputs[0].shape[2:])
    return between(call, lambda x, y: (x[cut], y))


def backward_crop(call: KernelCall) -> Any:
    """The gradient in its rectangle, zeros elsewhere."""
    head, output = call.inputs[0], call.outputs[0]
    whole = arrays([output])[0]
    part = View.of(whole[_rectangle(call, output, head.shape[2:])], whole)
    return put_part(call, part)


def put_part(call: KernelCall, part: View) -> Any:
    """The first input in a part of the output, zeros elsewhere."""
    zeros = elementwise.kernel(call.op.name, elementwise.ZERO, [], call.outputs)
    assert zeros is not None
    background = [zeros] if zeros.threads else []
    return _plan(call, [*background, *_move(call, (Kind.INPUT, 0), _whole(call.inputs[0]), part)])


def diag(call: KernelCall) -> Any:
    """A diagonal; of a vector, the matrix with that diagonal."""
    p: Any = call.params
    if len(call.inputs[0].shape) == 1:
        whole = arrays(call.outputs)[0]
        return put_part(call, View.of(np.diagonal(whole, p.k), whole))
    return between(call, lambda x, y: (_diagonal(x, p), y))


def backward_diag(call: KernelCall) -> Any:
    """The gradient on its diagonal, zeros elsewhere; of a vector, the diagonal of the gradient."""
    p: Any = call.params
    whole = arrays(call.outputs)[0]
    if whole.ndim == 1:
        return between(call, lambda x, y: (np.diagonal(x, p.k), y))
    return put_part(call, View.of(_diagonal(whole, p), whole))


def _diagonal(x: Array, p: Any) -> Array:
    most = max(x.shape)  # far beyond the array NumPy's pointers overflow
    return np.diagonal(x, min(max(p.k, -most), most), p.axis1, p.axis2)
