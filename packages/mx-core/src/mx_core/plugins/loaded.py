# SPDX-License-Identifier: Apache-2.0
"""The plug-ins of this process: loaded once, at the first use of any of them.

Threads: every function may be called from any thread; the first caller loads while others wait.
A module that is still being loaded as a plug-in gets a PluginError.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mx_core.environment import strict_plugins
from mx_core.errors import MXNetError, PluginError, PluginWarning
from mx_core.exits import exits_refused
from mx_core.forks import FirstUseLock, at_fork, first_use
from mx_core.plugins import absent, aside
from mx_core.plugins.discovery import PluginRecord, discover, unknown_disabled
from mx_core.plugins.registries import Entry, Registry
from mx_core.raised import users_line
from mx_core.signals import let_pass

if TYPE_CHECKING:
    import pluggy

    from mx_core.kernels import KernelCall, KernelSpec
    from mx_core.operator.declaration import Operator
    from mx_core.plugins.loading import Manager
    from mx_core.plugins.points import Point


#: Seconds from which a stranger's plug-in is said to load slowly.
_SLOW = 3.0


class _Selector(NamedTuple):
    """An implementation of `mx_select_kernel`."""

    entry: Entry
    function: Callable[..., Any]
    #: those of (op, call, candidates) that it takes
    taken: Callable[[tuple[object, ...]], tuple[object, ...]]


class _State:
    """Result of loading everything; immutable once published."""

    def __init__(self) -> None:
        from mx_core.plugins.loading import Manager
        from mx_core.plugins.registrars import REGISTRARS

        self.manager: Manager = Manager()
        self.registries = {kind: Registry(kind, missing_hint) for kind in REGISTRARS}
        self.kernels, self.kernel_generators = (
            self.registries["kernels"],
            self.registries["kernel_generators"],
        )
        self.records: tuple[PluginRecord, ...] = ()
        #: implementations of `mx_select_kernel` in the order in which they are asked: every new signature asks them
        self.selects: tuple[_Selector, ...] = ()


_lock = FirstUseLock()
_state: _State | None = None
_loading: str | None = None


def _get() -> _State:
    return _state if _state is not None else _load()


def _load() -> _State:
    global _state, _loading
    with first_use, _lock:
        if _state is not None:
            return _state
        if _loading is not None:
            raise PluginError(
                f"plug-in {_loading!r} uses a registry while it is being loaded; name what it "
                "registers as 'module:attribute', so that it is imported later"
            )
        strict_plugins()  # a value that is not allowed is an error even where every plug-in loads
        try:
            state = _State()
            records = []
            for record, point in discover():
                _loading = record.name
                begun = time.monotonic()
                loaded = _load_one(state, record, point)
                records.append(replace(loaded, seconds=time.monotonic() - begun))
            state.records = tuple(sorted(records, key=lambda record: (record.name, record.distribution)))
            _publish(state)
            _state = state
        finally:
            _loading = None
    for record in state.records:
        if record.state in ("broken", "incompatible"):
            _warn(_advice(record), record.origin)
        if record.seconds > _SLOW and not record.is_first_party:
            _warn(f"{record.source} took {record.seconds:.1f} s to load")
    for name, close in unknown_disabled(state.records).items():
        hint = f"; did you mean {close}?" if close else ""
        _warn(f"MX_DISABLE_PLUGINS: no plug-in or distribution {name!r} is installed{hint}")
    return state


def _warn(text: str, origin: str = "") -> None:
    """Warns, attributed to a line of the plug-in, or to the program's that called mx first."""
    file, _, line = (origin or users_line()).rpartition(":")
    warnings.warn_explicit(text, PluginWarning, file or "mx", int(line) if line.isdigit() else 1)


def _load_one(state: _State, record: PluginRecord, point: Point) -> PluginRecord:
    from mx_core.plugins import loading

    error: Exception | None = None
    if record.state == "found":
        record, error = loading.load(state.manager, state.registries, record, point)
    if record.state in ("broken", "incompatible") and strict_plugins():
        raise PluginError(_advice(record)) from error
    return record


def _publish(state: _State) -> None:
    from mx_core import lifecycle
    from mx_core.context import Context

    asked = reversed(state.manager.hook.mx_select_kernel.get_hookimpls())
    state.selects = tuple(
        _Selector(_hook_entry(state, each), each.function, _taking(each.argnames)) for each in asked
    )
    for entry in state.registries["devices"].items():
        Context.register(entry.value.name, entry.value.type_id)
    lifecycle.install(state.manager, state.records)


def _advice(record: PluginRecord) -> str:
    return f"{record.describe()}; see: mx plugins show {record.name}"


def plugins() -> tuple[PluginRecord, ...]:
    """Every installed plug-in with its state, sorted by name; loads them if that has not happened."""
    return _get().records


def missing_hint(kind: str, name: str) -> str:
    """Which plug-in that did not load would, or may, have brought `name`; empty when none.

    A plug-in that failed after registering `name` is certain; else those are named whose names have a word of it or
    whose modules have it as a text. How many others might bring it, as they implement the kind's hook or could not be
    imported, is said in a sentence.
    """
    return absent.hint(kind, name, _get().records) if _loading is None else ""


def registry(kind: str) -> Registry:
    """What all loaded plug-ins registered of one kind (the hook's suffix: `"kernels"`).

    Raises
    ------
    PluginError  there is no such kind; with MX_STRICT_PLUGINS=1 also: a plug-in is broken
    """
    registries = _get().registries
    found = registries.get(kind)
    if found is None:
        raise PluginError(f"unknown registry {kind!r}; there are: {', '.join(registries)}")
    return found


def kernel_entries() -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
    """The items of the registries of kernels and of their generators: every new signature asks for them."""
    state = _state if _state is not None else _load()
    return state.kernels.items(), state.kernel_generators.items()


def _taking(names: Sequence[str]) -> Callable[[tuple[object, ...]], tuple[object, ...]]:
    """What takes the named ones out of the arguments of `mx_select_kernel`."""
    places = [("op", "call", "candidates").index(name) for name in names]
    return itemgetter(*places) if len(places) > 1 else lambda given: tuple(given[i] for i in places)


def select_kernel(op: Operator, call: KernelCall, candidates: Sequence[KernelSpec]) -> KernelSpec | None:
    """The first answer of hook `mx_select_kernel`, or None.

    An MXNetError of a hook refuses the call. A hook that raises anything else, or answers with something that is no
    candidate, is disabled with a warning.
    """
    state = _state if _state is not None else _load()
    for entry, function, taken in state.selects:
        if aside.is_aside(entry):
            continue
        try:
            chosen: Any = function(*taken((op, call, candidates)))
        except MXNetError:
            raise
        except SystemExit as error:
            let_pass(error)
            aside.set_aside(entry, f"it ends the program: {error!r}")
        except Exception as error:
            aside.set_aside(entry, error)
        else:
            if chosen is None:
                continue
            if chosen in candidates:
                return cast("KernelSpec", chosen)
            aside.set_aside(entry, f"expected one of the candidates or None, got {chosen!r:.80}")
    return None


def _hook_entry(state: _State, implementation: pluggy.HookImpl) -> Entry:
    """A hook as a contribution of its plug-in."""
    name = implementation.plugin_name  # a broken plug-in of another distribution may have it, too
    record = next(record for record in state.records if record.name == name and record.state == "loaded")
    code = implementation.function.__code__
    origin = f"{code.co_filename}:{code.co_firstlineno}"
    return Entry("hooks", implementation.function.__name__, implementation.function, record.source, origin)


def read_graph(graph: str) -> Any:
    """A symbol from the JSON text of a graph, by hook `mx_read_graph`.

    Raises
    ------
    PluginError  no plug-in makes symbols
    """
    with exits_refused("mx_read_graph"):
        symbol = _get().manager.hook.mx_read_graph(graph=graph)
    if symbol is None:
        raise PluginError("no plug-in reads graphs; install mx-symbol")
    return symbol


def stub_modules() -> dict[str, str]:
    """Modules whose functions are made from operators, by hook `mx_stub_modules`; one that fails is left out."""
    state = _get()
    found: dict[str, str] = {}
    for implementation in state.manager.hook.mx_stub_modules.get_hookimpls():
        try:
            found |= _mapping("mx_stub_modules", implementation.function)
        except Exception as error:
            aside.set_aside(_hook_entry(state, implementation), error)
    return dict(sorted(found.items()))


def diagnostics() -> dict[str, dict[str, str]]:
    """Plug-in name -> lines of its `mx_diagnostics`; a hook that fails gives the line `error`."""
    state = _get()
    lines: dict[str, dict[str, str]] = {}
    for implementation in state.manager.hook.mx_diagnostics.get_hookimpls():
        try:
            lines[implementation.plugin_name] = _mapping("mx_diagnostics", implementation.function)
        except Exception as error:
            let_pass(error)
            lines[implementation.plugin_name] = {"error": f"{type(error).__name__}: {error}"}
    return dict(sorted(lines.items()))


def _mapping(hook: str, function: Callable[[], object]) -> dict[str, str]:
    """What a hook answers, as texts.

    Raises
    ------
    PluginError  it is no mapping, or the hook ends the program
    """
    with exits_refused(hook):
        answer = function()
    if not isinstance(answer, Mapping):
        raise PluginError(f"{hook}: expected a mapping of texts, got {answer!r}")
    return {str(key): str(value) for key, value in answer.items()}


def implementations(plugin: str) -> dict[str, pluggy.HookImpl]:
    """How a loaded plug-in implements hooks, by name of the hook."""
    manager = _get().manager
    callers = manager.get_hookcallers(manager.get_plugin(plugin)) or ()
    return {
        caller.name: implementation
        for caller in callers
        for implementation in caller.get_hookimpls()
        if implementation.plugin_name == plugin
    }


def reset() -> None:
    """Forgets everything, so that the next question loads anew; for tests."""
    global _state
    with _lock:
        _state = None
    aside.reset()
    absent.reset()


def _after_fork_in_child() -> None:
    """Another thread's loading, which a fork gave up waiting for, does not go on in the child."""
    global _loading
    if not _lock.held():
        _loading = None


at_fork(after_in_child=_after_fork_in_child)
