# SPDX-License-Identifier: Apache-2.0
"""Records one valid call of every native entry while the tests of this package run.

    python -m pytest -p record_native_calls packages/mx-operators-cpu/tests

with this folder on PYTHONPATH writes `native_calls.json` beside this file, which `test_native_entries.py` reads: of every
function (and of every method of a class) the call with the fewest elements, as `name -> {"inputs", "outputs", "options"}`.
Entries that no test of this package reaches are kept as they stand in the file.
Bytes stand as hexadecimal text under "hex".
"""

from __future__ import annotations

import inspect
import json
import math
import sys
from pathlib import Path
from typing import Any

from mx_operators_cpu import library

CALLS = Path(__file__).with_name("native_calls.json")
#: entries that take no signature
PLAIN = {"instruction_set", "onednn_version", "threads"}
#: classes whose objects entries take as options: their arguments are recorded
OPTIONS = {"ConvolutionOptions", "PoolOptions"}
_native = library.native
#: such objects by identity, kept, with their arguments
_options: dict[int, tuple[object, dict[str, Any]]] = {}
_smallest: dict[str, tuple[int, dict[str, Any]]] = {
    name: (1 << 62, call) for name, call in json.loads(CALLS.read_text()).items()
}


def _data(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, list | tuple):
        return [_data(item) for item in value]
    if value is None or isinstance(value, bool | str):
        return value
    return float(value) if isinstance(value, float) else int(value)


def _tensor(given: Any) -> tuple[Any, int]:
    """Shape and type code of a pair, or of a tensor of a KernelCall."""
    return given if isinstance(given, tuple) else (given.shape, given.dtype)


def _keep(name: str, arguments: dict[str, Any]) -> None:
    given = {kind: list(map(_tensor, arguments[kind])) for kind in ("inputs", "outputs") if kind in arguments}
    elements = sum(math.prod(shape) for tensors in given.values() for shape, _ in tensors)
    if not elements or (name in _smallest and _smallest[name][0] <= elements):
        return
    options: dict[str, Any] = {}
    for key, value in arguments.items():
        if key not in given:
            options |= _options[id(value)][1] if id(value) in _options else {key: value}
    call = {kind: _data(tensors) for kind, tensors in given.items()}
    _smallest[name] = (elements, {**call, "options": {key: _data(value) for key, value in options.items()}})


def _arguments(doc: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name: pybind11's docstring begins with the signature."""
    names = [part.split(":")[0].strip() for part in doc[doc.index("(") + 1 :].split(",")]
    names = [name for name in names if name.isidentifier() and name != "self"]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _remembered(options: object, arguments: dict[str, Any]) -> object:
    _options[id(options)] = options, arguments
    return options


class Recorder:
    """Stands in for the native module."""

    def __getattr__(self, name: str) -> Any:
        entry = getattr(_native, name)
        if name in PLAIN or name == "composite_plan":
            return entry
        if name in OPTIONS:
            return lambda **kwargs: _remembered(entry(**kwargs), kwargs)
        if inspect.isclass(entry):
            return lambda *args, **kwargs: _Described(name, entry, args, kwargs)

        def call(*args: Any, **kwargs: Any) -> Any:
            made = entry(*args, **kwargs)
            if made is not None:
                _keep(name, _arguments(entry.__doc__, args, kwargs))
            return made

        return call


class _Described:
    def __init__(self, name: str, entry: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._name, self._real = name, entry(*args, **kwargs)
        self._made = _arguments(entry.__init__.__doc__, args, kwargs)

    def __getattr__(self, method: str) -> Any:
        bound = getattr(self._real, method)

        def call(*args: Any) -> Any:
            made = bound(*args)
            if made is not None:
                extra = {"given": [list(a) for a in args]} if args else {}
                _keep(f"{self._name}.{method}", {**self._made, **extra})
            return made

        return call


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Of every test function the first few parameter sets: the smallest call is among them or near."""
    seen: dict[str, int] = {}
    kept = []
    for item in items:
        name = item.nodeid.partition("[")[0]
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= 4:
            kept.append(item)
    items[:] = kept


def pytest_configure() -> None:
    """Puts the recorder in the place of the module."""
    library.native = Recorder()  # type: ignore[assignment]
    for module in list(sys.modules.values()):
        if getattr(module, "native", None) is _native:
            module.native = library.native  # type: ignore[attr-defined]


def pytest_unconfigure() -> None:
    """Writes what was recorded."""
    lines = [f"{json.dumps(name)}: {json.dumps(call)}" for name, (_, call) in sorted(_smallest.items())]
    CALLS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
