# SPDX-License-Identifier: Apache-2.0
"""Files inside of MXNet's packages, such as `mx.ndarray.ndarray`: here their names are those of the package."""

from __future__ import annotations

from collections.abc import Iterable

#: package below `mx` -> names of files in it that programs import from
FILES = {
    "contrib.amp": ("amp", "loss_scaler"), "gluon.contrib.cnn": ("conv_layers",),
    "gluon.contrib.nn": ("basic_layers",), "gluon.nn": ("activations", "basic_layers", "conv_layers"),
    "gluon.rnn": ("rnn_cell", "rnn_layer"),
    "image": ("image", "detection", "det"), "io": ("io",), "kvstore": ("kvstore", "base"),
    "ndarray": ("ndarray",), "optimizer": ("optimizer",), "rnn": ("rnn", "rnn_cell", "io"), "symbol": ("symbol",),
}  # fmt: skip


def files_of(modules: Iterable[str]) -> set[str]:
    """The names of the files in a module that is known under some names, such as `["mx.nd", "mx.ndarray"]`."""
    return {file for module in modules for file in FILES.get(module.removeprefix("mx."), ())}
