# SPDX-License-Identifier: Apache-2.0
"""The result of a check, and what the checks of all kinds use."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from mx_core.errors import ArgumentError
from mx_core.plugins import specs
from mx_core.plugins.registries import Entry
from mx_core.raised import told
from mx_core.testing.expect import check_attributes

#: what fails a check: `sys.exit` is no way to end one
FAILURES = (Exception, SystemExit)


@dataclass(frozen=True)
class Result:
    """One check: it passed when it has neither an `error` nor `unchecked`, why nothing could be checked."""

    subject: str
    check: str
    error: str | None = None
    unchecked: str | None = None


def run_contract(contract: Any, subject: str) -> Iterator[Result]:
    """Runs every test of a contract instance."""
    for name in sorted(dir(contract)):
        if name.startswith("test_"):
            yield attempt(subject, name.removeprefix("test_").replace("_", " "), getattr(contract, name))


def run_made(contract: Any, make: Callable[[], Any], subject: str) -> Iterator[Result]:
    """The contract, or one failure where nothing can be made of which it could be checked."""

    def check() -> None:
        made = make()
        check_attributes(made, getattr(contract, "required", ()))
        if hasattr(contract, "make_engine"):
            made.stop()

    result = attempt(subject, "can be made", check)
    if result.error is not None:
        yield result
        return
    yield from run_contract(contract, subject)


def attempt(subject: str, check: str, function: Callable[[], Any]) -> Result:
    """The result of a check that calls a function; it fails if that raises."""
    try:
        function()
    except FAILURES as error:
        return Result(subject, check, told(error))
    return Result(subject, check)


def name_of(entry: Entry) -> str:
    """Kind and name of a contribution, as results show it."""
    return f"{entry.kind.replace('_', ' ')} {entry.name!r}"


def check_target(entry: Entry) -> Iterator[Result]:
    """What the contribution names by text can be imported."""
    for field in ("make", "apply", "command", "supports"):
        target = getattr(entry.value, field, None)
        if target is not None:
            yield attempt(name_of(entry), f"{field} can be imported", partial(specs.resolve, target))


def made_plainly(entry: Entry, check: str, cure: str) -> tuple[Any, Result | None]:
    """The object that `make()` returns without arguments, or a result that says why there is none."""
    make = specs.resolve(entry.value.make)
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        reason = f"it cannot be made without arguments ({error}); {cure}"
        return None, Result(name_of(entry), check, None, reason)
    except ValueError:  # a callable of C, whose arguments are not known
        pass
    try:
        return make(), None
    except (ArgumentError, FileNotFoundError) as error:
        reason = f"it cannot be made without arguments ({error}); {cure}"
        return None, Result(name_of(entry), check, None, reason)
    except FAILURES as error:
        return None, Result(name_of(entry), "can be made", told(error))


def optional(module: str) -> Any:
    """A module, or None where its distribution is not installed."""
    try:
        return import_module(module)
    except ImportError:
        return None
