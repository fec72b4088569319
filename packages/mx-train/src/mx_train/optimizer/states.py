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


class _Reader(pickle.Unpickler):
    """Knows NDArrays (ours and MXNet's) and containers; nothing else."""

    _ALLOWED: ClassVar[dict[tuple[str, str], Any]] = {
        ("mx_ndarray.records", "restore"): records.restore,
        ("mxnet.ndarray.ndarray", "NDArray"): _Recorded,
        ("builtins", "bytearray"): bytearray,
    }

    def find_class(self, module: str, name: str) -> Any:
        """The few names a state file may hold; FileFormatError for any other."""
        if (module, name) == ("_codecs", "encode"):
            return _encode
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


def _settled(state: Any) -> Any:
    """Placeholders replaced by their arrays."""
    if isinstance(state, _Recorded):
        return state.array
    if isinstance(state, dict):
        return {key: _settled(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(_settled(value) for value in state)
    return state


def read_states(data: bytes) -> Any:
    """What `Updater.get_states`, ours or MXNet's, wrote.

    Raises
    ------
    FileFormatError  the bytes are corrupt, or hold anything but arrays, numbers, strings, containers
    """
    try:
        return _settled(_Reader(io.BytesIO(data)).load())
    except FileFormatError:
        raise
    except Exception as error:
        raise FileFormatError(f"optimizer states: {type(error).__name__}: {error}") from None
