# SPDX-License-Identifier: Apache-2.0
"""Images on a GPU: as tensors of a network, cut, mirrored, of another size, in other colours."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.expression import compute_dtype
from mx_operators_cuda import moves, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.move import View
from mx_operators_cuda.launch import Kind, Launch, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_STREAM = written.stream()
_NO_STREAM = written.Argument("0, 0", ())
#: blocks of the sum of lightness, and their threads: kParts and kThreads of the header
_PARTS, _BLOCK = 64, 256
_UINT8, _FLOAT64 = dtypes.code("uint8"), dtypes.code("float64")
#: interpolations of `_image_resize` that have kernels, and how many neighbours they read
_NEAREST, _TAPS = 0, {1: 2, 2: 4}
_CHANGES = ("brightness", "contrast", "saturation", "hue")


def _plain(call: KernelCall) -> bool:
    return not any(s.layout or s.dtype not in names.STORAGE for s in (*call.inputs, *call.outputs))


def _plan(call: KernelCall, steps: list[Launch], scratch: tuple[int, ...] = ()) -> Any:
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps,
        scratch=scratch, random_blocks=call.random_blocks,
    )  # fmt: skip


def _values(code: int) -> str:
    """The type in which an image is computed: integers in float32."""
    return names.COMPUTE[1 if compute_dtype((code,)) == 1 else 0]


def _shape(*numbers: int) -> written.Argument:
    """Images, rows, columns, channels."""
    return written.struct("images::Shape", [written.number(n) for n in numbers])


def to_tensor(call: KernelCall) -> Any:
    """Channels first, from 0 to 1."""
    data = call.inputs[0]
    if not _plain(call):
        return None
    arguments = [
        written.read((Kind.INPUT, 0), data.dtype), written.write((Kind.OUTPUT, 0), 0),
        _shape(prod(data.shape[:-3]), *data.shape[-3:]),
    ]  # fmt: skip
    n = prod(data.shape)
    made = written.launch(call.op.name, "images::to_tensor", [names.STORAGE[data.dtype]], arguments, n)
    return _plan(call, [made] if n else [])


def _normalized(call: KernelCall, gradient: bool) -> Any:
    p: Any = call.params
    data, code = call.inputs[0], call.inputs[0].dtype
    if not _plain(call) or call.outputs[0].dtype != code:
        return None
    channels = data.shape[-3]

    def chosen(values: tuple[float, ...]) -> list[written.Argument]:
        found = values[:channels] if len(values) >= channels else values[:1] * channels
        return [written.double(v) for v in (*found, *(1.0,) * (3 - len(found)))]

    arguments = [
        written.read((Kind.INPUT, 0), code), written.write((Kind.OUTPUT, 0), code), *chosen(p.mean), *chosen(p.std),
        written.number(int(gradient)), _shape(prod(data.shape[:-3]), *data.shape[-2:], channels),
    ]  # fmt: skip
    types, n = [_values(code), names.STORAGE[code]], prod(data.shape)
    made = written.launch(call.op.name, "images::normalize", types, arguments, n)
    return _plan(call, [made] if n else [])


def normalize(call: KernelCall) -> Any:
    """Every channel minus its mean over its deviation."""
    return _normalized(call, False)


def backward_normalize(call: KernelCall) -> Any:
    """The gradient over the deviations."""
    return _normalized(call, True)


def flip(call: KernelCall) -> Any:
    """Rows or columns back to front."""
    axis = call.op.axis  # type: ignore[attr-defined]
    return moves.between(call, lambda x, y: (x[::-1] if axis == 0 else x[:, ::-1], y))


def maybe_flip(call: KernelCall) -> Any:
    """The same in half the cases."""
    data, code = call.inputs[0], call.inputs[0].dtype
    if not _plain(call):
        return None
    axis = call.op.axis  # type: ignore[attr-defined]
    arguments = [
        written.read((Kind.INPUT, 0), code), written.write((Kind.OUTPUT, 0), code), _STREAM,
        written.number(axis), _shape(1, *data.shape),
    ]  # fmt: skip
    n = prod(data.shape)
    made = written.launch(call.op.name, "images::maybe_flipped", [names.STORAGE[code]], arguments, n)
    return _plan(call, [made] if n else [])


def crop(call: KernelCall) -> Any:
    """A part of every image."""
    op, p = call.op, call.params
    return moves.between(call, lambda x, y: (op.part(p, x), y))  # type: ignore[attr-defined]


def backward_crop(call: KernelCall) -> Any:
    """The gradient where the part was, zeros elsewhere."""
    op: Any = call.op.backward_of
    (whole,) = moves.arrays(call.outputs)
    return moves.put_part(call, View.of(op.part(call.params, whole), whole))


def resize(call: KernelCall) -> Any:
    """Nearest pixels, or bilinear or bicubic interpolation; means of areas and Lanczos are declined."""
    p: Any = call.params
    data, output, code = call.inputs[0], call.outputs[0], call.inputs[0].dtype
    integers = compute_dtype((code,)) not in (0, 1)
    if not _plain(call) or (
        p.interp != _NEAREST and (p.interp not in _TAPS or (integers and code != _UINT8))
    ):
        return None
    numbers = (prod(data.shape[:-3]), *data.shape[-3:], *output.shape[-3:-1])
    arguments = [
        written.read((Kind.INPUT, 0), code), written.write((Kind.OUTPUT, 0), code),
        written.struct("images::Sizes", [written.number(n) for n in numbers]),
    ]  # fmt: skip
    n, stored = prod(output.shape), names.STORAGE[code]
    if p.interp == _NEAREST:
        made = written.launch(call.op.name, "images::nearest", [stored], arguments, n)
    else:
        types = [str(_TAPS[p.interp]), _values(code), stored]
        made = written.launch(call.op.name, "images::interpolated", types, arguments, n)
    return _plan(call, [made] if n else [])


def _changed(call: KernelCall, kind: int, amounts: list[float], means: bool) -> Any:
    """Colours changed: a change by its number, or all four in random order (-1)."""
    data, code = call.inputs[0], call.inputs[0].dtype
    if not _plain(call) or code not in _COLORS:
        return None
    pixels, channels = prod(data.shape[:-1]), data.shape[-1]
    if pixels * channels == 0:
        return _plan(call, [])
    types, name = [_values(code), names.STORAGE[code]], call.op.name
    rest = [
        _STREAM, written.number(kind), *(written.double(a) for a in (*amounts, *(0.0,) * (4 - len(amounts)))),
        written.number(pixels), written.number(channels),
    ]  # fmt: skip
    x = written.read((Kind.INPUT, 0), code)
    steps = []
    if means:
        parts = written.Argument("{0}", (("double*", (Kind.SCRATCH, 0)),))
        steps.append(
            written.launch(
                name,
                "images::lightness",
                types,
                [x, parts, *rest],
                _PARTS * _BLOCK,
                block=_BLOCK,
                barriers=True,
            )
        )
    read = written.read((Kind.SCRATCH, 0), _FLOAT64) if means else written.absent(_FLOAT64)
    arguments = [x, written.write((Kind.OUTPUT, 0), code), read, *rest]
    steps.append(written.launch(name, "images::colors", types, arguments, pixels))
    return _plan(call, steps, (8 * _PARTS,) if means else ())


#: float16, bfloat16, float32, float64, and the integers that float32 or its cuts reach
_COLORS = frozenset(
    dtypes.code(name) for name in ("float16", "bfloat16", "float32", "float64", "uint8", "int8", "int32")
)


def change(call: KernelCall) -> Any:
    """One change by an amount in a range."""
    p: Any = call.params
    what = _CHANGES.index(call.op.name.rsplit("_", 1)[1])
    return _changed(call, what, [p.min_factor, p.max_factor], what == 1)


def jitter(call: KernelCall) -> Any:
    """All four changes in random order."""
    p: Any = call.params
    return _changed(call, -1, [getattr(p, name) for name in _CHANGES], p.contrast > 0)


def lighting(call: KernelCall) -> Any:
    """Pixels shifted along principal components, by given or normal amounts."""
    p: Any = call.params
    data, code = call.inputs[0], call.inputs[0].dtype
    if not _plain(call) or code not in _COLORS:
        return None
    pixels, channels = prod(data.shape[:-1]), data.shape[-1]
    drawn = hasattr(p, "alpha_std")
    amounts = (p.alpha_std, 0.0, 0.0, 0.0) if drawn else (-1.0, *p.alpha)
    arguments = [
        written.read((Kind.INPUT, 0), code), written.write((Kind.OUTPUT, 0), code), _STREAM if drawn else _NO_STREAM,
        *(written.double(a) for a in amounts), written.number(pixels), written.number(channels),
    ]  # fmt: skip
    types = [_values(code), names.STORAGE[code]]
    made = written.launch(call.op.name, "images::lighting", types, arguments, pixels)
    return _plan(call, [made] if pixels * channels else [])
