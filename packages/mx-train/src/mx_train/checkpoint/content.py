# SPDX-License-Identifier: Apache-2.0
"""What the file of a checkpoint holds, with a checksum, and its check when it is read."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mx_core.errors import FileError, FileFormatError, MXNetError, OutOfMemoryError
from mx_ndarray import NDArray, nd
from mx_train.checkpoint import generators
from mx_train.checkpoint.parts import Arrays

#: of what is in a checkpoint; a reader refuses others
VERSION = 2

_CHECKSUM = "checksum"
_OPTIONAL = type(None)
#: the kinds that an entry of the place may have
_KINDS: dict[str, tuple[type, ...]] = {
    "step": (int,), "epoch": (int,), "batch": (int,), "ended": (bool,), "begun": (dict,), "now": (dict,),
    "iterator": (dict, _OPTIONAL), "rate": (int, float, _OPTIONAL), "schedule": (dict, _OPTIONAL),
    "scale": (dict, _OPTIONAL), "metric": (dict, _OPTIONAL), "given_rate": (int, float, _OPTIONAL), "data": (dict,),
}  # fmt: skip
#: what a checkpoint that has no such entry says; those of former programs have none
_DEFAULTS: dict[str, Any] = {"given_rate": None, "data": {}}


def save(path: Path, place: Mapping[str, Any], states: bytes, arrays: Arrays) -> None:
    """Writes a checkpoint.

    Parameters
    ----------
    path : Path
    place : mapping
        What JSON holds, and arrays of an iterator.
    states : bytes
        Of the optimizer.
    arrays : mapping of name to the arrays of all contexts
    """
    iterator, arrays_of_data = _split(place["iterator"])
    text = json.dumps({**place, "version": VERSION, "iterator": iterator})
    content = {"place": _bytes(text.encode()), "states": _bytes(states)}
    content |= {f"data/{name}": nd.array(array, dtype=array.dtype) for name, array in arrays_of_data.items()}
    for name, each in arrays.items():
        content |= {f"{i:04}/{name}": array for i, array in enumerate(each)}
    nd.save(str(path), content | {_CHECKSUM: _bytes(_checksum(content))})


def load(path: Path) -> tuple[dict[str, Any], bytes, Arrays]:
    """The place, the states of the optimizer, and the arrays of a checkpoint, of which nothing is damaged.

    Raises
    ------
    FileFormatError  it is damaged or something else
    """
    try:
        content = nd.load(str(path))
        return _checked(content)
    except (FileError, OutOfMemoryError):
        raise
    except (
        MXNetError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        said = str(error) if isinstance(error, MXNetError) else f"{type(error).__name__}: {error}"
        if str(path) in said and isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path}: expected a checkpoint of a training: {said:.300}") from error


def _checked(content: Any) -> tuple[dict[str, Any], bytes, Arrays]:
    if not isinstance(content, dict):
        raise FileFormatError("its arrays have no names")
    for name in ("place", "states"):
        if name not in content or content[name].dtype != np.uint8:
            raise FileFormatError(f"{name}: expected an array of uint8")
    if _CHECKSUM not in content:
        raise FileFormatError("it has no checksum")
    expected = content.pop(_CHECKSUM).asnumpy().tobytes()
    if (found := _checksum(content)) != expected:
        raise FileFormatError(
            f"the file is damaged: the checksum of what it holds is {_shown(found)}, and it says {_shown(expected)}"
        )
    place = json.loads(content["place"].asnumpy().tobytes())
    if not isinstance(place, dict) or place.get("version") != VERSION:
        version = place.get("version") if isinstance(place, dict) else place
        raise FileFormatError(f"expected version {VERSION}, got {version!r:.80}")
    del content["place"]
    states = content.pop("states").asnumpy().tobytes()
    place = {**_DEFAULTS, **place}
    _check(place)
    arrays: Arrays = {}
    data: dict[str, Any] = {}
    for name, array in content.items():
        kind, _, rest = name.partition("/")
        if kind == "data":
            data[rest] = array.asnumpy()
        else:
            arrays.setdefault(rest, []).append(array)
    if place["iterator"] is not None:
        place["iterator"] |= data
    return place, states, arrays


def _shown(checksum: bytes) -> str:
    return ascii(checksum.decode("latin-1"))[1:-1][:80]


def _check(place: Mapping[str, Any]) -> None:
    for name, kinds in _KINDS.items():
        if name not in place:
            raise FileFormatError(f"it has no {name!r}")
        if type(place[name]) not in kinds:
            expected = " or ".join("null" if kind is _OPTIONAL else kind.__name__ for kind in kinds)
            raise FileFormatError(f"{name}: expected {expected}, got {place[name]!r:.80}")
    for name in ("step", "epoch", "batch"):
        if place[name] < 0:
            raise FileFormatError(f"{name}: expected at least 0, got {place[name]}")
    for name in ("begun", "now"):
        generators.check(place[name])


def _checksum(content: Mapping[str, NDArray]) -> bytes:
    """Of names, types, shapes and elements, in the order of names."""
    found = 0
    for name in sorted(content):
        array = content[name].asnumpy()
        found = zlib.crc32(f"{name} {array.dtype} {array.shape}\n".encode(), found)
        found = zlib.crc32(array.reshape(-1).view(np.uint8).data, found)
    return b"%08x" % found


def _bytes(content: bytes) -> NDArray:
    made: NDArray = nd.array(np.frombuffer(content, np.uint8), dtype=np.uint8)
    return made


def _split(state: Mapping[str, Any] | None) -> tuple[Any, dict[str, Any]]:
    """What JSON holds of an iterator's state, and its arrays."""
    if state is None:
        return None, {}
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray) and value.size}
    rest = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in state.items()
        if name not in arrays
    }
    return rest, arrays
