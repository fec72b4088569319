# SPDX-License-Identifier: Apache-2.0
"""The same elements under another shape: Reshape, Flatten, expand_dims, squeeze, reshape_like."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from mx_core.errors import ShapeError
from mx_core.operator import (
    Arrays,
    GradientBuilder,
    Gradients,
    NoParams,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    Shapes,
    opt,
    required,
)
from mx_core.operator.declaration import P


class ReshapeParam(Params):
    """Target, in MXNet's codes."""

    shape: Shape = opt((), "target: sizes, or 0 copy, -1 infer, -2 copy the rest, -3 merge two, -4 split")
    reverse: bool = opt(False, "match from the right")
    target_shape: Shape = opt((), "older form: 0 is inferred")
    keep_highest: bool = opt(False, "older form: keep the first axis")


def reshape(source: Sequence[int], codes: Sequence[int], reverse: bool = False) -> tuple[int, ...]:
    """The shape that MXNet's reshape codes describe for a complete source shape.

    Codes: n > 0 a size; 0 copies the axis; −1 is inferred from the rest; −2 copies all remaining
    axes; −3 merges two axes; −4 splits an axis into the following two sizes (one may be −1).

    Raises
    ------
    ShapeError  codes run past the source, more than one −1, sizes do not match
    """
    if reverse:
        return tuple(reversed(_forward(source[::-1], _reversed_codes(codes))))
    return tuple(_forward(source, codes))


def _reversed_codes(codes: Sequence[int]) -> list[int]:
    groups: list[list[int]] = []
    i = 0
    while i < len(codes):
        if codes[i] == -4:
            groups.append([-4, *reversed(codes[i + 1 : i + 3])])
            i += 3
        else:
            groups.append([codes[i]])
            i += 1
    return [code for group in reversed(groups) for code in group]


def _forward(source: Sequence[int], codes: Sequence[int]) -> list[int]:
    position = 0

    def take() -> int:
        nonlocal position
        if position >= len(source):
            raise ShapeError(f"[Reshape] shape {tuple(codes)} reads more axes than {tuple(source)} has")
        position += 1
        return source[position - 1]

    result: list[int] = []
    unknown: int | None = None
    i = 0
    while i < len(codes):
        code = codes[i]
        if code == 0:
            result.append(take())
        elif code == -1:
            if unknown is not None:
                raise ShapeError(f"[Reshape] shape {tuple(codes)} has more than one -1")
            unknown = len(result)
            result.append(1)
            position += 1
        elif code == -2:
            result += source[position:]
            position = len(source)
        elif code == -3:
            result.append(take() * take())
        elif code == -4:
            result += _split(take(), codes[i + 1 : i + 3], codes)
            i += 2
        elif code > 0:
            result.append(code)
            position += 1
        else:
            raise ShapeError(f"[Reshape] shape {tuple(codes)}: unknown code {code}")
        i += 1
    total = prod(source)
    if unknown is not None:
        rest = prod(result)
        result[unknown] = total // rest if rest else 0
    if prod(result) != total:
        raise ShapeError(f"[Reshape] cannot reshape {tuple(source)} ({total} elements) with {tuple(codes)}")
    return result


def _split(size: int, parts: Sequence[int], codes: Sequence[int]) -> list[int]:
    if len(parts) != 2 or sum(part == -1 for part in parts) == 2 or 0 in parts:
        raise ShapeError(f"[Reshape] shape {tuple(codes)}: -4 needs two sizes of which one may be -1")
    first, second = parts
    if first == -1:
        first = size // second
    if second == -1:
        second = size // first
    if first * second != size:
        raise ShapeError(f"[Reshape] shape {tuple(codes)}: {size} does not split into {first} x {second}")
    return [first, second]


class _SameElements(Operator[P]):
    """Elements of the first input in the same order under another shape; the gradient goes back."""

    inplace_pairs = ((0, 0),)

    def gradient(self, p: P, g: GradientBuilder) -> Gradients:
        """Only the shape of the input is needed."""
        first = self.arguments[0]
        return {first: g.op("_backward_reshape", (g.out_grad(), g.input(first)))[0]}

    def target(self, p: P, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """Shape of the result from complete shapes of the inputs."""
        raise NotImplementedError

    def infer_shape(self, p: P, s: Shapes) -> None:
        """Forward, once the inputs are complete."""
        shapes = [shape for name in self.inputs(p) if (shape := s.known(name)) is not None]
        if len(shapes) == len(self.inputs(p)):
            s.assign("output", self.target(p, shapes))

    def reference(self, p: P, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0].reshape(self.target(p, [x.shape for x in inputs])),)


class BackwardReshape(_SameElements[NoParams]):
    """out_grad in the shape of data."""

    name = "_backward_reshape"
    arguments = ("out_grad", "data")
    shape_only = ("data",)

    def target(self, p: NoParams, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        return shapes[1]

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        s.unify(["data", "output"])
        out_grad, data = s.known("out_grad"), s.known("data")
        if out_grad is not None and data is not None and prod(out_grad) != prod(data):
            raise s.error(f"out_grad: expected the {prod(data)} elements of data {data}, got {out_grad}")


class Reshape(_SameElements[ReshapeParam]):
    """data under another shape; `shape` may hold codes 0, −1, −2, −3, −4.

    Examples of (2, 3, 4): (4, 0, 2) gives (4, 3, 2); (6, −1) gives (6, 4); (−2,) gives (2, 3, 4);
    (−3, 4) gives (6, 4); (−4, 1, 2, −2) gives (1, 2, 3, 4).
    """

    name = "Reshape"
    aliases = ("reshape",)

    def backward_operator(self) -> BackwardReshape:
        return BackwardReshape()

    def target(self, p: ReshapeParam, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        source = shapes[0]
        if p.shape:
            return reshape(source, p.shape, p.reverse)
        if not p.target_shape:
            return (1,) * 0 if prod(source) == 1 else reshape(source, ())
        wanted = [-1 if size == 0 else size for size in p.target_shape]
        if p.keep_highest:
            wanted[0] = source[0]
        return reshape(source, wanted)

    def infer_shape(self, p: ReshapeParam, s: Shapes) -> None:
        """Forward, as far as data is known; backwards where the codes leave one unknown size."""
        super().infer_shape(p, s)
        data = s.get("data")
        if data is not None and -1 in data and p.shape and not p.reverse and min(p.shape) >= -1:
            sizes = [*data, *[-1] * len(p.shape)]
            s.assign("output", tuple(sizes[i] if code == 0 else code for i, code in enumerate(p.shape)))
        output = s.known("output")
        if data is not None and output is not None and data.count(-1) == 1:
            rest = prod(d for d in data if d != -1)
            if rest and prod(output) % rest == 0:
                s.assign("data", tuple(prod(output) // rest if d == -1 else d for d in data))


class Flatten(_SameElements[NoParams]):
    """(N, …) as (N, D)."""

    name = "Flatten"
    aliases = ("flatten",)

    def target(self, p: NoParams, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """Everything after the first axis in one."""
        return (shapes[0][0], prod(shapes[0][1:])) if shapes[0] else (1, 1)

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        """The batch size is known even when the rest is not."""
        data = s.get("data")
        if data:
            s.assign("output", (data[0], -1 if -1 in data[1:] else prod(data[1:])))
            s.assign("data", (s.ranked("output")[0], *data[1:]))


class ExpandDimsParam(Params):
    """Place."""

    axis: int = required("where the new axis goes; negative counts from the end")


class ExpandDims(_SameElements[ExpandDimsParam]):
    """A new axis of extent 1."""

    name = "expand_dims"

    def target(self, p: ExpandDimsParam, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        shape = list(shapes[0])
        if not -len(shape) - 1 <= p.axis <= len(shape):
            raise ShapeError(f"[expand_dims] axis {p.axis} does not fit {tuple(shape)}")
        shape.insert(p.axis if p.axis >= 0 else len(shape) + 1 + p.axis, 1)
        return tuple(shape)

    def infer_shape(self, p: ExpandDimsParam, s: Shapes) -> None:
        """Both ways, partial shapes included."""
        data, output = s.get("data"), s.get("output")
        if data is not None:
            s.assign("output", self.target(p, [data]))
        elif output is not None:
            axis = p.axis if p.axis >= 0 else len(output) + p.axis
            s.assign("data", output[:axis] + output[axis + 1 :])


class SqueezeParam(Params):
    """Which axes."""

    axis: Shape | None = opt(None, "axes of extent 1 to drop; None drops all")


class Squeeze(_SameElements[SqueezeParam]):
    """Axes of extent 1 dropped; at least one axis stays."""

    name = "squeeze"

    def target(self, p: SqueezeParam, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        shape = shapes[0]
        if p.axis is None:
            return tuple(e for e in shape if e != 1) or ((1,) if shape else ())
        drop = set()
        for axis in p.axis:
            if not -len(shape) <= axis < len(shape) or shape[axis] != 1:
                raise ShapeError(f"[squeeze] axis {axis} of {shape} is not an axis of extent 1")
            drop.add(axis % len(shape))
        return tuple(e for i, e in enumerate(shape) if i not in drop) or (1,)


class ReshapeLikeParam(Params):
    """Which axes are replaced by which."""

    lhs_begin: int | None = opt(None, "first axis of lhs to replace")
    lhs_end: int | None = opt(None, "axis after the last one of lhs to replace")
    rhs_begin: int | None = opt(None, "first axis of rhs to take")
    rhs_end: int | None = opt(None, "axis after the last one of rhs to take")


class ReshapeLike(_SameElements[ReshapeLikeParam]):
    """lhs with (some of) the axes of rhs, which may be of any type."""

    name = "reshape_like"
    arguments = ("lhs", "rhs")
    shape_only = ("rhs",)
    free_types = {"rhs": "lhs"}

    def target(self, p: ReshapeLikeParam, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """Slices of both shapes put together."""
        lhs, rhs = shapes
        if (p.lhs_begin, p.lhs_end, p.rhs_begin, p.rhs_end) == (None,) * 4:
            result = rhs
        else:
            first, last, _ = slice(p.lhs_begin, p.lhs_end).indices(len(lhs))
            result = lhs[:first] + rhs[slice(p.rhs_begin, p.rhs_end)] + lhs[max(first, last) :]
        if prod(result) != prod(lhs):
            raise ShapeError(f"[reshape_like] lhs {lhs} cannot take shape {result} from rhs {rhs}")
        return result
