# SPDX-License-Identifier: Apache-2.0
"""Entries of registries: one frozen record per kind of contribution.

A `make` given as `"module:attribute"` becomes a `Target`, which imports it at the first call, so a
spec's `make` can always be called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mx_core.errors import PluginError
from mx_core.exits import exits_refused, refusal
from mx_core.forks import first_use
from mx_core.imports import import_by_name
from mx_core.record import Record


class Target:
    """A callable named by `"module:attribute"` and imported at its first call."""

    __slots__ = ("_found", "name")

    def __init__(self, name: str) -> None:
        module, colon, attribute = name.partition(":")
        if not (module and colon and attribute):
            raise PluginError(f"expected 'module:attribute', got {name!r}")
        self.name = name
        self._found: Any = None

    def resolve(self) -> Any:
        """The object itself; imports its module if that has not happened.

        Raises
        ------
        PluginError  the module ends the program when it is imported
        """
        if self._found is None:
            module, _, attribute = self.name.partition(":")
            with first_use, exits_refused(f"the import of {module!r}"):
                found: Any = import_by_name(module)
            for part in attribute.split("."):
                found = getattr(found, part)
            self._found = found
        return self._found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self._found
        if found is None:
            found = self.resolve()
        try:
            return found(*args, **kwargs)
        except SystemExit as error:
            raise refusal(repr(self.name), error) from error

    def __repr__(self) -> str:
        return f"Target({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


Make = Callable[..., Any]


def target(make: Make | str) -> Make:
    """`make` itself, or a `Target` for a string."""
    if isinstance(make, str):
        return Target(make)
    if not callable(make):
        raise PluginError(f"expected a callable or 'module:attribute', got {make!r}")
    return make


def direct(make: Make) -> Make:
    """What a `Target` has found: the same to call in less time. The caller refuses a SystemExit itself."""
    found: Make | None = make._found if type(make) is Target else None
    return make if found is None else found


def resolve(make: Any) -> Any:
    """The object behind a `Target` or a `"module:attribute"` string; anything else unchanged."""
    if isinstance(make, str):
        make = Target(make)
    return make.resolve() if isinstance(make, Target) else make


class DeviceSpec(Record):
    """`probe() -> int`, devices present; `make() -> object` with `.capsule` (mx.device.v1)."""

    name: str
    type_id: int
    probe: Make
    make: Make


class EngineSpec(Record):
    """`make() -> Engine` with `.capsule` (mx.engine.v1)."""

    name: str
    make: Make
    priority: int = 0
    aliases: tuple[str, ...] = ()


class StorageSpec(Record):
    """`make() -> StorageManager` with `.capsule` (mx.storage.v1)."""

    device: str
    name: str
    make: Make
    priority: int = 0


class ResourceSpec(Record):
    """`make() -> object` with `.capsule` (mx.resource.v1)."""

    kind: str
    device: str
    make: Make
    priority: int = 0


class OperatorSpec(Record):
    """An operator whose module is imported when it, or one of the `backward` operators that it brings, is asked for."""

    module: str
    name: str
    aliases: tuple[str, ...] = ()
    backward: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names that are known once the module is imported."""
        return (self.name, *self.aliases, *self.backward)


def operator_specs(table: str) -> Iterator[OperatorSpec]:
    """What a table has: names of modules, and below each, indented, a line per operator.

    A line has the operator's name, its aliases, and behind a colon the names of its backward operators.

    Raises
    ------
    PluginError  a line is not of this form
    """
    module = ""
    for line in table.splitlines():
        own, _, backward = line.partition(":")
        words = own.split()
        if line[:1].isspace() and words and module:
            yield OperatorSpec(module, words[0], tuple(words[1:]), tuple(backward.split()))
        elif words == [line]:
            module = line
        elif line.strip():
            raise PluginError(
                f"operators: expected a module, or an indented line of names below one, got {line!r}"
            )


class GeneratorSpec(Record):
    """`make(expression, call) -> plan or None`: kernels for elementwise operators."""

    device: str
    name: str
    make: Make
    priority: int = 10


class PassSpec(Record):
    """`apply(graph) -> graph` at `stage`, after and before the passes named; `mx_core.graph` has the contract."""

    name: str
    stage: str
    apply: Make
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


class CodecSpec(Record):
    """An image codec: `sniff(head: bytes) -> bool`, `decode(data, ...)`, `encode(image, ...)`."""

    name: str
    extensions: tuple[str, ...]
    sniff: Make
    decode: Make
    encode: Make | None = None
    priority: int = 10


class FactorySpec(Record):
    """A named factory: kvstore, data iterator, augmenter, optimizer, metric, initializer, sink."""

    name: str
    make: Make
    aliases: tuple[str, ...] = ()


#: subcommands of `mx` itself, which come before those of plug-ins
OWN_COMMANDS = ("doctor", "ops", "plugins", "stubs")


class CommandSpec(Record):
    """A `click.Command`, or a `Target` of one."""

    name: str
    command: Any
