# SPDX-License-Identifier: Apache-2.0
"""Optimizer states from bytes, without executing anything: MXNet's pickles through an allow-list."""

from __future__ import annotations

import io
import pickle
from typing import Any, ClassVar

from mx_core.errors import FileFormatError
from mx_ndarray import NDArray, records


class _Recorded:
    """Stands for an NDArray of MXNet while its pickle is read."""

    def __init__(self, handle: None = None) -> None:
        self.array: NDArray | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.array = records.restore(bytes(state["handle"]))


class _Settings:
    """Stands for an optimizer (or schedule) dumped beside the states: its numbers, no behaviour."""


class _Reader(pickle.Unpickler):
    """Knows NDArrays (ours and MXNet's), optimizers as plain settings, and containers; nothing else."""

    _ALLOWED: ClassVar[dict[tuple[str, str], Any]] = {
        ("mx_ndarray.records", "restore"): records.restore,
        ("mxnet.ndarray.ndarray", "NDArray"): _Recorded,
    }
    _SETTINGS = ("mx_train.optimizer.", "mx_train.lr_scheduler", "mxnet.optimizer.", "mxnet.lr_scheduler")

    def find_class(self, module: str, name: str) -> Any:
        """The few names a state file may hold; FileFormatError for any other."""
        if (module, name) == ("_codecs", "encode"):
            return _encode
        if (module, name) == ("builtins", "bytearray"):
            return _bytes
        if f"{module}.".startswith(self._SETTINGS):
            return _Settings
        try:
            return self._ALLOWED[(module, name)]
        except KeyError:
            raise FileFormatError(
                f"optimizer states: {module}.{name} is not allowed in a state file"
            ) from None


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise FileFormatError(f"optimizer states: unexpected encoding {encoding!r}")
    return text.encode("latin1")


def _bytes(data: bytes | str, encoding: str = "latin-1") -> bytes:
    """What `bytearray` is called with in such files; never a length, which would allocate it."""
    if isinstance(data, str):
        return data.encode("latin-1")
    if not isinstance(data, (bytes, bytearray)):
        raise FileFormatError(f"optimizer states: bytes expected, got {type(data).__name__}")
    return bytes(data)


def _settled(state: Any, done: dict[int, Any]) -> Any:
    """Placeholders replaced by their arrays; what occurs often is visited once."""
    if isinstance(state, _Recorded):
        return state.array
    if not isinstance(state, (dict, list, tuple)):
        return state
    if id(state) not in done:
        done[id(state)] = None  # a container within itself has no meaning here
        if isinstance(state, dict):
            done[id(state)] = {key: _settled(value, done) for key, value in state.items()}
        else:
            done[id(state)] = type(state)(_settled(value, done) for value in state)
    return done[id(state)]


def read_states(data: bytes) -> Any:
    """What `Updater.get_states`, ours or MXNet's, wrote.

    Raises
    ------
    FileFormatError  the bytes are corrupt, or hold anything but arrays, numbers, strings, containers
    """
    try:
        return _settled(_Reader(io.BytesIO(data)).load(), {})
    except FileFormatError:
        raise
    except Exception as error:
        raise FileFormatError(f"optimizer states: {type(error).__name__}: {error}") from None
