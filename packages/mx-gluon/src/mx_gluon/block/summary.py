# SPDX-License-Identifier: Apache-2.0
"""The table that `Block.summary` prints: outputs and numbers of parameters of every block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mx_core.errors import MXNetError
from mx_gluon.errors import RefusedError
from mx_gluon.parameter import Parameter
from mx_ndarray import NDArray

if TYPE_CHECKING:
    from mx_gluon.block.block import Block
    from mx_gluon.block.hooks import HookHandle


@dataclass
class _Row:
    name: str
    shapes: str
    total: int = 0
    trainable: int = 0
    shared: int = 0


def print_summary(block: Block, inputs: tuple[Any, ...]) -> None:
    """Runs a block on inputs and prints what happened; see `Block.summary`."""
    rows = [_Row("Input", _shapes(inputs))]
    seen: set[Parameter] = set()
    handles: list[HookHandle] = []

    def observe(each: Block) -> None:
        if getattr(each, "_active", False):
            raise RefusedError(
                f"[{each.name}] summary: hybridize(False) first: within a graph no block is called"
            )
        if not each._is_chain:
            handles.append(each.register_forward_hook(note))

    def note(each: Block, inputs: Any, outputs: Any) -> None:
        rows.append(_row(each, outputs, seen, len(rows)))

    try:
        block.apply(observe)
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()
    print("\n".join(_lines(rows)))


def _row(block: Block, outputs: Any, seen: set[Parameter], number: int) -> _Row:
    row = _Row(f"{type(block).__name__}-{number}", _shapes(outputs))
    for param in block.params.values():
        try:
            size = param.data().size
        except MXNetError as error:
            raise RefusedError(f"[{block.name}] summary: {error}") from error
        row.total += size
        row.trainable += size if param.grad_req != "null" else 0
        row.shared += size if param in seen else 0
        seen.add(param)
    return row


def _lines(rows: list[_Row]) -> list[str]:
    line = "{:>20}  {:>42} {:>15}".format
    total, trainable, shared = (
        sum(getattr(row, name) for row in rows) for name in ("total", "trainable", "shared")
    )
    return [
        "-" * 80,
        line("Layer (type)", "Output Shape", "Param #"),
        "=" * 80,
        *(line(row.name, row.shapes, row.total) for row in rows),
        "=" * 80,
        "Parameters in forward computation graph, duplicate included",
        f"   Total params: {total}",
        f"   Trainable params: {trainable}",
        f"   Non-trainable params: {total - trainable}",
        f"Shared params in forward computation graph: {shared}",
        f"Unique parameters in model: {total - shared}",
        "-" * 80,
    ]


def _shapes(values: Any) -> str:
    if isinstance(values, (list, tuple)):
        return str([_shape(each) for each in values])[1:-1]
    return str(_shape(values))


def _shape(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_shape(each) for each in value]
    return value.shape if isinstance(value, NDArray) else value
