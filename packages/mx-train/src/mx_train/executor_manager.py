# SPDX-License-Identifier: Apache-2.0
"""What programs with loaders of their own import from MXNet's file of this name; instead of its classes: `Module`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mx_core.errors import ArgumentError, ShapeError
from mx_symbol.symbol import Symbol
from mx_train.module.parts import _load_data as _load_data
from mx_train.module.parts import _load_general as _load_general
from mx_train.module.parts import _load_label as _load_label


def _split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """The parts of a batch for several devices.

    Parameters
    ----------
    batch_size : int
    work_load_list : sequence of float
        Shares of the devices, which are rounded; the last one takes what is left.

    Raises
    ------
    ShapeError  a part is empty
    """
    total = sum(work_load_list)
    ends, end = [0], 0
    for share in work_load_list:
        end = min(end + round(share * batch_size / total), batch_size)
        ends.append(end)
    ends[-1] = batch_size
    parts = [slice(begin, end) for begin, end in zip(ends, ends[1:], strict=False)]
    if any(part.start >= part.stop for part in parts):
        raise ShapeError(
            f"[executor_manager] a batch of {batch_size} in shares {list(work_load_list)}: a device gets no example"
        )
    return parts


def _check_arguments(symbol: Symbol) -> None:
    """Raises ArgumentError if two arguments, or two auxiliary states, of a symbol have one name."""
    for kind, names in (
        ("arguments", symbol.list_arguments()),
        ("auxiliary states", symbol.list_auxiliary_states()),
    ):
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ArgumentError(
                f"[executor_manager] {kind}: expected different names, got {', '.join(twice)} twice; name the layers"
            )


def __getattr__(name: str) -> Any:
    text = f"module {__name__!r} has no attribute {name!r}"
    if name.startswith("DataParallelExecutor"):
        text += ": it is deprecated in MXNet; mx.mod.Module, or mx.module.executor_group.DataParallelExecutorGroup"
    raise AttributeError(text)
