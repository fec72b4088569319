# SPDX-License-Identifier: Apache-2.0
"""Dropout as a cell, for between layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_symbol import sym
from mx_symbol.symbol import Symbol
from mx_train.rnn.cell import BaseRNNCell, RNNParams
from mx_train.rnn.sequence import Steps, arranged


class DropoutCell(BaseRNNCell):
    """Drops inputs; has no states.

    Parameters
    ----------
    dropout : float
        Share of what is dropped.
    prefix, params
        As of `BaseRNNCell`.
    """

    def __init__(self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None) -> None:
        super().__init__(prefix, params)
        self.dropout = dropout

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """None."""
        return []

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """The inputs, some of them 0."""
        if self.dropout > 0:
            inputs = sym.Dropout(data=inputs, p=self.dropout)
        return inputs, list(states)

    def _unrolled(
        self, length: int, inputs: Steps, states: list[Any], layout: str, merge: bool | None
    ) -> tuple[Any, list[Any]]:
        given = arranged(length, inputs, layout, merge)
        if isinstance(given, Symbol):
            return self(given, [])
        return [self(step, [])[0] for step in given], []
