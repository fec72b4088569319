# SPDX-License-Identifier: Apache-2.0
"""Sequences in graphs: one symbol with an axis for time, or a list with a symbol per step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_symbol import sym
from mx_symbol.symbol import Symbol

Steps = Symbol | Sequence[Symbol]


def time_axis(layout: str) -> int:
    """Position of T in a layout such as NTC.

    Raises
    ------
    ArgumentError  there is none, or more than one
    """
    if layout.count("T") != 1 or "N" not in layout:
        raise ArgumentError(
            f"[rnn] layout: expected a layout with N and T, such as NTC or TNC, got {layout!r}"
        )
    return layout.index("T")


def one_symbol(length: int, inputs: Steps, layout: str) -> Symbol:
    """A sequence as one symbol."""
    axis = time_axis(layout)
    if isinstance(inputs, Symbol):
        return inputs
    _check_length(length, inputs)
    parts = [sym.expand_dims(step, axis=axis) for step in inputs]
    joined: Symbol = sym.Concat(*parts, dim=axis)
    return joined


def one_per_step(length: int, inputs: Steps, layout: str) -> list[Symbol]:
    """A sequence as a symbol per step."""
    axis = time_axis(layout)
    if not isinstance(inputs, Symbol):
        _check_length(length, inputs)
        return list(inputs)
    if len(inputs.list_outputs()) != 1:
        raise ArgumentError(
            f"[rnn] inputs: expected one output with an axis for time, got {len(inputs.list_outputs())} outputs; "
            "give a list of symbols"
        )
    return list(sym.split(inputs, axis=axis, num_outputs=length, squeeze_axis=1))


def arranged(length: int, inputs: Steps, layout: str, merge: bool | None) -> Any:
    """As one symbol (`merge`), as one per step (False), or as it is (None)."""
    if merge is None:
        time_axis(layout)
        return inputs if isinstance(inputs, Symbol) else list(inputs)
    return one_symbol(length, inputs, layout) if merge else one_per_step(length, inputs, layout)


def _check_length(length: int, inputs: Sequence[Symbol]) -> None:
    if len(inputs) != length:
        raise ArgumentError(f"[rnn] inputs: expected {length} symbols, one per step, got {len(inputs)}")
