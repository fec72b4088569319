# SPDX-License-Identifier: Apache-2.0
"""sort, argsort, topk and the gradients of what they take, on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_operators_cuda import written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, Launch, Parameter, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

#: elements that a block sorts in shared memory, and its threads
_TILE, _BLOCK = 512, 256
_INT32, _UINT64 = dtypes.code("int32"), dtypes.code("uint64")


@dataclass(frozen=True)
class Order:
    """The launches that find an order, where it lies in the end, and the bytes of scratch."""

    steps: list[Launch]
    place: Parameter
    scratch: list[int]


@dataclass(frozen=True)
class Keys:
    """Rows along the middle one of three axes."""

    outer: int
    extent: int
    inner: int
    descending: bool = False

    @property
    def elements(self) -> int:
        """Of all rows."""
        return self.outer * self.extent * self.inner

    def argument(self) -> written.Argument:
        """The struct of the kernels."""
        numbers = (self.outer * self.inner, self.extent, self.inner, int(self.descending))
        return written.struct("sort::Keys", [written.number(n) for n in numbers])


def order(name: str, keys: Keys, x: Parameter, code: int, scratch: int = 0) -> Order:
    """A stable order of each row; `scratch` is the number of the first piece of scratch memory."""
    value, stored = written.value_type(code), names.STORAGE[code]
    places: list[Parameter] = [(Kind.SCRATCH, scratch), (Kind.SCRATCH, scratch + 1)]
    tiles = keys.outer * keys.inner * -(-keys.extent // _TILE)
    block = 32 if keys.extent <= 32 else _BLOCK
    arguments = [written.read(x, code), written.write(places[0], _INT32), keys.argument()]
    steps = [
        written.launch(
            name, "sort::tiles", [value, stored], arguments, tiles * block, block=block, barriers=True
        )
    ]
    width, now = _TILE, 0
    while width < keys.extent:
        arguments = [
            written.read(x, code), written.read(places[now], _INT32), written.write(places[1 - now], _INT32),
            written.number(width), keys.argument(),
        ]  # fmt: skip
        steps.append(written.launch(name, "sort::merge", [value, stored], arguments, keys.elements))
        width, now = 2 * width, 1 - now
    pieces = 1 if len(steps) == 1 else 2
    return Order(steps, places[now], [keys.elements * 4] * pieces)


def _keys(shape: tuple[int, ...], p: Any) -> Keys:
    descending = not p.is_ascend
    if p.axis is None:
        return Keys(1, prod(shape), 1, descending)
    axis = p.axis % len(shape)
    return Keys(prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]), descending)


def _plan(call: KernelCall, data: int, results: tuple[str, ...], k: int) -> Any:
    """A plan that writes `results` of the order of an input's rows."""
    spec = call.inputs[data]
    specs = (*call.inputs, *call.outputs)
    if any(s.layout or s.dtype not in names.STORAGE for s in specs) or spec.dtype == _UINT64:
        return None  # int64, in which it would be compared, does not hold all of uint64
    keys = _keys(spec.shape, call.params)
    if keys.elements == 0:
        return make_plan(call.op.name, call.context, call.inputs, call.outputs, [])
    if keys.extent >= 1 << 31:
        return None
    k = k if k >= 1 else keys.extent
    found = order(call.op.name, keys, (Kind.INPUT, data), spec.dtype)
    steps, at = list(found.steps), written.read(found.place, _INT32)
    for o, result in enumerate(results):
        code = call.outputs[o].dtype
        into = [written.write((Kind.OUTPUT, o), code), written.number(k), keys.argument()]
        types, n = [written.value_type(code), names.STORAGE[code]], keys.elements // keys.extent * k
        before = {
            "values": [written.read((Kind.INPUT, data), code), at], "positions": [at],
            "mask": [written.absent(code), at], "spread": [written.read((Kind.INPUT, 0), code), at],
        }[result]  # fmt: skip
        function = "spread" if result == "mask" else result
        threads = keys.elements if function == "spread" else n
        steps.append(written.launch(call.op.name, f"sort::{function}", types, [*before, *into], threads))
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps, scratch=found.scratch
    )  # fmt: skip


def sort(call: KernelCall) -> Any:
    """Values in order."""
    return _plan(call, 0, ("values",), 0)


def argsort(call: KernelCall) -> Any:
    """Their positions."""
    return _plan(call, 0, ("positions",), 0)


def topk(call: KernelCall) -> Any:
    """The first values, positions, both, or a mask of them."""
    p: Any = call.params
    results = {
        "both": ("values", "positions"),
        "indices": ("positions",),
        "mask": ("mask",),
        "value": ("values",),
    }
    return _plan(call, 0, results[p.ret_typ], p.k)


def backward_sort(call: KernelCall) -> Any:
    """The gradient where the values came from."""
    return _plan(call, 1, ("spread",), 0)


def backward_topk(call: KernelCall) -> Any:
    """The gradient where the values came from, else zero."""
    p: Any = call.params
    return _plan(call, 1, ("spread",), p.k)
