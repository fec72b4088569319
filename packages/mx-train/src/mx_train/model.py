# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: a symbol and its parameters in two files."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from mx_core.errors import FileFormatError
from mx_core.imports import lazy
from mx_ndarray import NDArray, nd
from mx_symbol import sym

if TYPE_CHECKING:
    from mx_train.feed_forward import FeedForward as FeedForward


class BatchEndParam(NamedTuple):
    """The argument of a batch callback."""

    epoch: int
    nbatch: int
    eval_metric: Any
    locals: Any


def save_checkpoint(
    prefix: str,
    epoch: int,
    symbol: Any,
    arg_params: dict[str, NDArray],
    aux_params: dict[str, NDArray],
    remove_amp_cast: bool = True,
) -> None:
    """Writes `prefix-symbol.json` and `prefix-NNNN.params`, each atomically.

    Parameters
    ----------
    epoch : int
        Number in the file name, four digits at least.
    symbol : Symbol or None
        None writes parameters only.
    """
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    named = {f"arg:{name}": value for name, value in arg_params.items()}
    named |= {f"aux:{name}": value for name, value in aux_params.items()}
    path = f"{prefix}-{epoch:04d}.params"
    nd.save(path, named)
    logging.info('Saved checkpoint to "%s"', path)


def load_named(path: str) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Arguments and auxiliary states of a `.params` file.

    Raises
    ------
    FileFormatError  the file has names without `arg:` or `aux:`, or no names
    """
    loaded = nd.load(path)
    if not len(loaded):  # a network without parameters has no names either
        logging.warning("%s: no parameters are in it", path)
        return {}, {}
    if not isinstance(loaded, dict):
        raise FileFormatError(f"{path}: expected named arrays, got a list of {len(loaded)}")
    groups: dict[str, dict[str, Any]] = {"arg": {}, "aux": {}}
    for name, value in loaded.items():
        kind, _, rest = name.partition(":")
        if kind not in groups:
            raise FileFormatError(f"{path}: expected names arg:… or aux:…, got {name!r}")
        groups[kind][rest] = value
    return groups["arg"], groups["aux"]


def load_params(prefix: str, epoch: int) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Arguments and auxiliary states of `prefix-NNNN.params`; see `load_named`."""
    return load_named(f"{prefix}-{epoch:04d}.params")


def load_checkpoint(prefix: str, epoch: int) -> tuple[Any, dict[str, NDArray], dict[str, NDArray]]:
    """Symbol, arguments and auxiliary states of a checkpoint."""
    return sym.load(f"{prefix}-symbol.json"), *load_params(prefix, epoch)


#: modules need this one, and FeedForward needs modules
__getattr__, __dir__ = lazy(
    __name__,
    {
        "mx_train.feed_forward": ["FeedForward"],
        "mx_train.module.private_functions": [
            "_create_kvstore", "_initialize_kvstore", "_multiple_callbacks", "_update_params",
            "_update_params_on_kvstore",
        ],
    },
)[:2]  # fmt: skip
