# SPDX-License-Identifier: Apache-2.0
"""What became of a name of MXNet here: it is asked of the packages that are installed."""

from __future__ import annotations

import ast
import difflib
import inspect
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

import mx
from mx.migrate import methods, optimizers
from mx_core import environment, plugins
from mx_core.errors import MXNetError

#: stores of MXNet that sum with a library of their own
_DEVICE_STORES = ("horovod", "byteps")
_PRETRAINED = "nothing here opens a network connection: the parameters must be in `root`, or in MXNET_HOME"
_VERSION = "that of mx, which a comparison takes for an old MXNet; with mx-mxnet `mxnet.__version__` is 1.9.1"
_SPARSE_GRADIENT = "sparse_grad=True: gradients are dense; leave it out"

State = Literal["absent", "different", "deprecated"]


class Verdict(NamedTuple):
    """What to know of a name, and what to do."""

    state: State
    advice: str


@cache
def _notes() -> dict[str, dict[str, str]]:
    """`different` and `deprecated`: name -> what to know."""
    found: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("notes.json").read_text("utf-8"))
    return found


@cache
def _noted(kind: State) -> list[tuple[Any, str, str]]:
    """Objects with notes, so that each of their names is known: the object, its name, the note."""
    made = ((found(name), name, note) for name, note in _notes()[kind].items())
    return [(each, name, note) for each, name, note in made if each is not None]


def found(name: str) -> Any:
    """What a name below `mx` stands for; None if that is absent or cannot be told."""
    try:
        return _walk(name)
    except AttributeError:
        return None


def _walk(name: str) -> Any:
    """As `found`; raises AttributeError for what is absent from a module or class."""
    place: Any = mx
    for part in name.split(".")[1:]:
        if not isinstance(place, ModuleType) and not inspect.isclass(place):
            return None  # an attribute of an object, which only a run has
        place = getattr(place, part)
    return place


def of_name(name: str) -> Iterator[Verdict]:
    """What is to be said of a name such as `mx.nd.zeros`."""
    if "." not in name and name != "mx":
        yield from _of_variable(name)
        return
    try:
        here = _walk(name)
    except AttributeError as error:
        yield Verdict("absent", _told(error))
        return
    if name == "mx.__version__":
        yield Verdict("different", _VERSION)
    kinds: tuple[State, ...] = ("deprecated", "different")
    for kind in kinds:
        for other, known_as, note in _noted(kind):
            if known_as == name or (other is here and not isinstance(here, ModuleType)):
                yield Verdict(kind, note)
                break


def _told(error: AttributeError) -> str:
    """The end of what a module says of a name that it lacks: what there is instead."""
    text = str(error)
    _, marked, rest = text.partition("docs/guides/move_from_mxnet.md): ")
    return rest if marked else text


def _of_variable(name: str) -> Iterator[Verdict]:
    known = dict(environment.VARIABLES)
    for record in plugins.plugins():
        known.update(record.info.variables)
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        yield Verdict("different", "nothing reads it" + (f"; did you mean {close[0]}?" if close else ""))


def of_call(name: str, call: ast.Call) -> Iterator[Verdict]:
    """What is to be said of a call of a name."""
    here = found(name)
    yield from of_arguments(call)
    for keyword in call.keywords:
        if keyword.arg is not None and callable(here) and not _takes(here, keyword.arg):
            yield Verdict("different", f"does not take {keyword.arg}")
        match keyword:
            case ast.keyword(arg="pretrained", value=ast.Constant(value=True)):
                yield Verdict("different", _PRETRAINED)
            case ast.keyword(arg="sparse_grad", value=ast.Constant(value=True)):
                state: State = "absent" if inspect.isclass(here) else "different"
                yield Verdict(state, _SPARSE_GRADIENT)
    if here is mx.kv.create and call.args:
        yield from _of_store(call.args[0])
    for advice in optimizers.of_call(here, call):
        yield Verdict("different", advice)


def of_arguments(call: ast.Call) -> Iterator[Verdict]:
    """What is to be said of any call: methods that are refused, kinds of storage, stores, arguments of optimizers."""
    for advice in methods.of_call(call):
        yield Verdict("absent", advice)
    for advice in optimizers.of_method(call):
        yield Verdict("different", advice)
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg="stype" | "grad_stype", value=ast.Constant(value=str(kind))):
                if kind != "default":
                    yield Verdict("absent", f"{keyword.arg}={kind!r}: only dense arrays are here")
            case ast.keyword(arg="kvstore", value=value):
                yield from _of_store(value)


def _of_store(value: ast.expr) -> Iterator[Verdict]:
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        return
    wanted, registry = value.value.lower(), plugins.registry("kvstores")
    # of a plug-in with a store that others have too, the name is NAME@ENGINE
    known = {name.partition("@")[0] for name in registry.names()}
    if wanted in known or wanted in registry or wanted in mx.kv.KVStoreBase.kv_registry:
        return
    engines = {name.partition("@")[2] for name in registry.names()} - {""}
    others = [f"{wanted}@{engine}" for engine in sorted(engines) if f"{wanted}@{engine}" in registry]
    if others:
        advice = f"`{registry.get(others[0]).name.partition('@')[0]}`"
    elif wanted in _DEVICE_STORES:
        advice = "`device`, or `dist_device_sync` for several machines"
    elif wanted.startswith("dist") and not engines:
        advice = "distributed stores are in the plug-in mx-kvstore-mpi"
    else:
        advice = f"there are {', '.join(sorted(known))}"
    yield Verdict("absent", f"no KVStore is named {value.value!r}; {advice}")


def _takes(function: Any, name: str) -> bool:
    """Whether a function or class takes an argument, as far as that can be told."""
    op = getattr(function, "__wrapped_operator__", None)
    if op is not None:
        try:
            op.Param.parse({name: "1"}, op=op.name)
        except MXNetError as error:
            unknown = "cannot find argument" in str(error)
        else:
            return True
        if not unknown:
            return True
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True
    anything = op is None and any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return anything or name in parameters


def of_methods(classes: list[str], name: str) -> Iterator[Verdict]:
    """What is to be said of a method of something, if it is of one of some classes that the program uses."""
    for owner, known_as, note in _notes_of_methods(name):
        if any(_is_or_extends(found(each), owner) for each in classes):
            yield Verdict("different", f"of a {known_as.split('.')[-2]}: {note}")
            return


@cache
def _notes_of_methods(name: str) -> list[tuple[Any, str, str]]:
    notes = _notes()["different"].items()
    made = [(found(key.rpartition(".")[0]), key, note) for key, note in notes if key.endswith(f".{name}")]
    return [each for each in made if inspect.isclass(each[0])]


def _is_or_extends(here: Any, owner: type) -> bool:
    return inspect.isclass(here) and issubclass(here, owner)
