# SPDX-License-Identifier: Apache-2.0
"""Optimizer states as bytes: MXNet's pickles, read and written as data. Nothing of a file is executed."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError, FileFormatError
from mx_ndarray import NDArray, records
from mx_train.optimizer.fitting import is_public
from mx_train.optimizer.pickle_data import Malformed, Name, NotData, load

_NDARRAY = Name("mxnet.ndarray.ndarray", "NDArray")
_BYTEARRAY = Name("builtins", "bytearray")
_SETTINGS = ("mx_train.optimizer.", "mx_train.lr_scheduler.", "mxnet.optimizer.", "mxnet.lr_scheduler.")
#: Attributes of an optimizer or schedule that say how far it is, or what its parameters are called.
_NO_SETTINGS = frozenset(
    (
        "num_update",
        "begin_num_update",
        "idx2name",
        "param_dict",
        "sym_info",
        "count",
        "cur_step_ind",
        "base_lr",
    )
)
#: Containers within containers; of MXNet's states there are at most four (both halves, a table, two tuples).
_MAX_DEPTH = 16


class Settings:
    """Of an optimizer (or schedule) dumped with the states its attributes, without behaviour.

    Threads: one at a time.

    Attributes
    ----------
    kind : str
        Name of its class.
    values : dict
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.values: dict[Any, Any] = {}

    def differences(self, used: Any) -> list[str]:
        """The settings in which an optimizer (or schedule) differs from this one, with both values.

        Counts of updates and attributes that only one of the two has are no such settings. A class outside of mx counts
        as the one of mx that it extends.
        """
        here = _nearest(type(used)).__name__
        if here.lower() != self.kind.lower():
            return [f"{self.kind} in the file, {here} here"]
        found = []
        for name, value in vars(used).items():
            saved = self.values.get(name, value)
            if name in _NO_SETTINGS or not isinstance(name, str) or name.startswith("_"):
                continue
            if name == "lr" and saved is None and isinstance(self.values.get("lr_scheduler"), Settings):
                continue  # the schedule has the rate
            if isinstance(saved, Settings) and value is not None:
                found += [f"{name}.{each}" for each in saved.differences(value)]
            elif isinstance(saved, Settings):
                found.append(f"{name} {saved.kind} in the file, None here")
            elif isinstance(saved, dict) and isinstance(value, dict):
                if saved != value:
                    found.append(name)
            elif _is_plain(saved) and (_is_plain(value) or saved is None) and saved != value:
                shown = repr(value) if _is_plain(value) else type(value).__name__
                found.append(f"{name} {saved!r} in the file, {shown} here")
        return found


class _Recorded:
    """Stands for an NDArray of MXNet until its state has been read."""

    def __init__(self) -> None:
        self.array: NDArray | None = None


def read_states(data: bytes | bytearray) -> Any:
    """What `dump_states`, or MXNet's `Updater.get_states`, wrote; or `pickle.dumps` of an Updater of MXNet or mx.

    A pickled Updater is read as data like the others, to what `get_states(dump_optimizer=True)` would have written: its
    states and the settings of its optimizer. The modules that it names may be those of any version of mx.

    Raises
    ------
    FileFormatError
        The bytes are corrupt, or hold anything but arrays, numbers, strings, containers; the message has the byte at
        which the reader stopped.
    """
    try:
        found = load(data, _construct, _set_state)
        if isinstance(found, Settings) and found.kind == "Updater":
            found = found.values.get("states"), found.values.get("optimizer")
        return _settled(found, 0, {})
    except (NotData, Malformed) as error:
        raise FileFormatError(f"optimizer states: {error}") from None


def _construct(function: Name, arguments: tuple[Any, ...]) -> Any:
    """What a state file gets by calls: arrays, bytes and optimizers; nothing else."""
    if function == ("mx_ndarray.records", "restore"):
        return _array(*arguments)
    if function == _NDARRAY and arguments in ((), (None,)):
        return _Recorded()
    if function == _BYTEARRAY:
        return _bytes(*arguments)
    if function == ("_codecs", "encode"):
        return _bytes(*arguments)
    if function == ("copyreg", "_reconstructor") and arguments and type(arguments[0]) is Name:
        function = arguments[0]
    if f"{function.module}.".startswith(_SETTINGS):
        return Settings(function.name.rpartition(".")[2])
    raise NotData(f"{function.module}.{function.name} is not allowed in a state file")


def _array(data: Any, device: Any = "cpu", number: Any = 0) -> NDArray:
    if not (isinstance(data, bytes) and isinstance(device, str) and type(number) is int):
        raise ValueError("an array that is not bytes and a device")
    array: NDArray = records.restore(data, device, number)
    return array


def _bytes(data: Any = b"", encoding: Any = "latin-1") -> bytes:
    """What `bytearray` is called with in such files; never a length, which would allocate it."""
    if isinstance(data, str) and encoding in ("latin1", "latin-1"):
        return data.encode("latin-1")
    if not isinstance(data, (bytes, bytearray)):
        raise ValueError(f"bytes expected, got {type(data).__name__}")
    return bytes(data)


def _set_state(target: Any, state: Any) -> None:
    if isinstance(target, _Recorded) and isinstance(state, dict):
        handle = state.get("handle")
        if not isinstance(handle, (bytes, bytearray)):
            raise ValueError(f"handle of an NDArray: expected bytes, got {type(handle).__name__}")
        target.array = records.restore(bytes(handle))
    elif isinstance(target, Settings) and isinstance(state, dict):
        target.values = state
    else:
        raise NotData(f"a state of {getattr(target, 'name', type(target).__name__)} is not allowed")


def _settled(state: Any, depth: int, done: dict[int, Any]) -> Any:
    """Placeholders replaced by their arrays; what occurs often is visited once."""
    if isinstance(state, _Recorded):
        return state.array
    if isinstance(state, Name):
        raise NotData(f"{state.module}.{state.name} is not allowed in a state file")
    if not isinstance(state, (dict, list, tuple)):
        return state
    if depth > _MAX_DEPTH:
        raise NotData(f"expected at most {_MAX_DEPTH} containers within each other")
    if id(state) not in done:
        done[id(state)] = None  # a container within itself has no meaning here
        if isinstance(state, dict):
            done[id(state)] = {key: _settled(value, depth + 1, done) for key, value in state.items()}
        else:
            done[id(state)] = type(state)(_settled(value, depth + 1, done) for value in state)
    return done[id(state)]


def dump_states(states: Any, optimizer: Any = None) -> bytes:
    """States as the pickle that MXNet's `Updater.get_states` gives, which MXNet reads.

    Parameters
    ----------
    states : dict
        Of None, numbers, text, NDArrays and containers of these.
    optimizer : Optimizer, optional
        Its plain attributes are added, under the name of the class of mx that it is or extends, for `read_states` takes
        no others: such a file MXNet does not read.

    Raises
    ------
    ArgumentError  the states hold something else, which `read_states` would refuse
    """
    if optimizer is None:
        return b"".join([b"\x80\x04", *_dumped(states), b"."])
    kind = _nearest(type(optimizer))
    values = {key: value for key, value in vars(optimizer).items() if _is_plain(value)}
    attributes = [_name(Name(kind.__module__, kind.__qualname__)), b")\x81", *_dumped(values), b"b"]
    return b"".join([b"\x80\x04", *_dumped(states), *attributes, b"\x86."])


def _nearest(kind: type) -> type:
    """The public class of mx that a class is or extends; itself if there is none."""
    return next(filter(is_public, kind.__mro__), kind)


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, (int, str)) and _is_plain(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (int, float, str))


def _name(name: Name) -> bytes:
    return f"c{name.module}\n{name.name}\n".encode()


def _dumped(value: Any) -> Iterator[bytes]:
    """The opcodes that build a value."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        yield {None: b"N", True: b"\x88", False: b"\x89"}[value]
    elif isinstance(value, int):
        encoded = pickle.encode_long(value)
        yield b"\x8b" + struct.pack("<i", len(encoded)) + encoded
    elif isinstance(value, float):
        yield b"G" + struct.pack(">d", value)
    elif isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass")
        yield b"X" + struct.pack("<I", len(text)) + text
    elif isinstance(value, NDArray):
        data = records.dump_record(value)
        yield _name(_NDARRAY) + b"N\x85R}X\x06\0\0\0handle"
        yield _name(_BYTEARRAY) + b"\x8e" + struct.pack("<Q", len(data))
        yield data
        yield b"\x85Rsb"
    elif isinstance(value, (list, tuple)):
        yield b"("
        for item in value:
            yield from _dumped(item)
        yield b"l" if isinstance(value, list) else b"t"
    elif isinstance(value, dict):
        yield b"("
        for key, item in value.items():
            yield from _dumped(key)
            yield from _dumped(item)
        yield b"d"
    else:
        raise ArgumentError(
            f"optimizer states: expected None, numbers, text, NDArrays and containers, got {value!r}"
        )
