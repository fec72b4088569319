# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of models with cells: weights are stored one per gate, so any cell of a kind can read them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from mx_ndarray import NDArray
from mx_symbol.symbol import Variable
from mx_train import model
from mx_train.rnn.cell import BaseRNNCell
from mx_train.rnn.sequence import Steps

Cells = BaseRNNCell | Sequence[BaseRNNCell]


def _listed(cells: Cells) -> list[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else list(cells)


def save_rnn_checkpoint(
    cells: Cells, prefix: str, epoch: int, symbol: Any, arg_params: dict[str, NDArray],
    aux_params: dict[str, NDArray],
) -> None:  # fmt: skip
    """Writes a checkpoint with the weights of some cells unpacked; otherwise as `model.save_checkpoint`."""
    for cell in _listed(cells):
        arg_params = cell.unpack_weights(arg_params)
    model.save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(
    cells: Cells, prefix: str, epoch: int
) -> tuple[Any, dict[str, NDArray], dict[str, NDArray]]:
    """Reads a checkpoint of `save_rnn_checkpoint` and packs the weights as these cells want them."""
    symbol, arg_params, aux_params = model.load_checkpoint(prefix, epoch)
    for cell in _listed(cells):
        arg_params = cell.pack_weights(arg_params)
    return symbol, arg_params, aux_params


def do_rnn_checkpoint(cells: Cells, prefix: str, period: int = 1) -> Callable[..., None]:
    """An epoch callback that writes a checkpoint with `save_rnn_checkpoint` every `period` epochs."""
    period = max(1, int(period))

    def callback(epoch: int, symbol: Any = None, arg_params: Any = None, aux_params: Any = None) -> None:
        if (epoch + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, epoch + 1, symbol, arg_params, aux_params)

    return callback


def rnn_unroll(
    cell: BaseRNNCell,
    length: int,
    inputs: Steps | None = None,
    begin_state: Sequence[Any] | None = None,
    input_prefix: str = "",
    layout: str = "NTC",
) -> tuple[Any, list[Any]]:
    """Deprecated: use `cell.unroll`. Without inputs, variables `<input_prefix>t<i>_data`."""
    warnings.warn("rnn_unroll is deprecated; use cell.unroll", FutureWarning, stacklevel=2)
    if inputs is None:
        inputs = [Variable(f"{input_prefix}t{i}_data") for i in range(length)]
    return cell.unroll(length, inputs, begin_state, layout)
