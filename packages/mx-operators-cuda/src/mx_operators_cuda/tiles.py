# SPDX-License-Identifier: Apache-2.0
"""Transpositions through shared memory."""

from __future__ import annotations

from math import prod

from mx_operators_cuda import written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.move import View, Walk
from mx_operators_cuda.launch import Kind, Launch, Parameter

#: extent of a tile, threads of its block, axes beside those of a tile: the header's numbers
_TILE, _BLOCK, _OUTER = 32, 256, 4
#: a tile that is filled less than that is not worth its barriers
_LEAST = 16


def transposition(
    name: str, place: Parameter, code: int, way: Walk, source: View, target: View, output: int
) -> Launch | None:
    """The copy of one view to another by tiles; None where neighbours of the target are those of the source,
    or too few to fill tiles.
    """
    rank = len(way.sizes)
    if rank < 2 or rank - 2 > _OUTER or way.target[-1] != 1 or way.sizes[-1] < _LEAST:
        return None
    near = [i for i in range(rank - 1) if way.source[i] == 1 and way.sizes[i] >= _LEAST]
    if not near or way.source[-1] == 1:
        return None
    column = near[-1]
    others = [i for i in range(rank - 1) if i != column]

    def padded(values: tuple[int, ...], missing: int) -> list[int]:
        chosen = [values[i] for i in others]
        return [*(missing,) * (_OUTER - len(chosen)), *chosen]

    columns, rows = way.sizes[column], way.sizes[-1]
    numbers = [
        columns, rows, source.offset, target.offset, way.source[-1], way.target[column],
        *padded(way.sizes, 1), *padded(way.source, 0), *padded(way.target, 0),
    ]  # fmt: skip
    tiles = -(-columns // _TILE) * -(-rows // _TILE) * prod(way.sizes[i] for i in others)
    arguments = [
        written.Argument("{0}", ((f"const {names.STORAGE[code]}*", place),)),
        written.write((Kind.OUTPUT, output), code),
        written.struct("tiles::Walk", [written.number(n) for n in numbers]),
    ]
    types = [written.value_type(code), names.STORAGE[code]]
    return written.launch(name, "tiles::copy", types, arguments, tiles * _BLOCK, block=_BLOCK, barriers=True)
