# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-engine.

The native part is imported when the first engine is made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from mx_core.plugins.hookspecs import PluginInfo, hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    from mx_core.plugins.registrars import CommandRegistrar, EngineRegistrar, ProfilerSinkRegistrar
    from mx_engine._core import Engine
    from mx_engine.lifecycle import Keeper
    from mx_engine.profiler.recording import Recording

    Sink = Callable[[Recording, Path], None]

MX_PLUGIN = PluginInfo(
    summary="Dependency engine: threaded per device, threaded, naive, debugging",
    variables={
        "MX_FORK_TIMEOUT": "seconds a fork waits for pending operations",
        "MX_PYTHON_WORKER_NTHREADS": "engine threads for Python operations",
        "MX_SHUTDOWN_TIMEOUT": "seconds the exit waits for pending operations",
        "MXNET_OMP_MAX_THREADS": "threads of a parallel region in an operation",
        "MXNET_PROFILER_AUTOSTART": "1: profile from the start",
    },
)
MX_HOOK_API = (1, 0)


def _maker(name: str) -> Callable[[], Engine]:
    def make() -> Engine:
        from mx_engine import engines, lifecycle
        from mx_engine.settings import flag

        engine = engines.make(name, lifecycle.by_hooks)
        if flag("MXNET_PROFILER_AUTOSTART"):
            from mx_engine.profiler import session

            session.current().run(engine)
        return engine

    return make


@hookimpl
def mx_register_engines(registry: EngineRegistrar) -> None:
    """The engine types: three under MXNet's names, and one that finds errors of programs."""
    registry.add("ThreadedEnginePerDevice", _maker("ThreadedEnginePerDevice"), priority=20)
    registry.add(
        "ThreadedEngine",
        _maker("ThreadedEngine"),
        priority=10,
        aliases=("ThreadedEnginePooled",),
    )
    registry.add("NaiveEngine", _maker("NaiveEngine"), priority=0)
    registry.add("DebugEngine", _maker("DebugEngine"), priority=-10)


@hookimpl
def mx_register_profiler_sinks(registry: ProfilerSinkRegistrar) -> None:
    """Recordings of `mx_engine.profiler` as Chrome trace JSON."""
    registry.add("chrome_trace", _chrome_trace)


@hookimpl
def mx_register_commands(registry: CommandRegistrar) -> None:
    """`mx engine`."""
    registry.add("engine", "mx_engine.command:engine")


def _chrome_trace() -> Sink:
    from mx_engine.profiler import chrome_trace

    return chrome_trace.write


def _keeper() -> Keeper | None:
    """The keeper of the engines made by `_maker`; None before the first."""
    lifecycle = sys.modules.get("mx_engine.lifecycle")
    return None if lifecycle is None else lifecycle.by_hooks


@hookimpl
def mx_fork(stage: str) -> None:
    """Quiet engines before the fork, opened again after it."""
    keeper = _keeper()
    if keeper is None:
        return
    if stage == "before":
        keeper.before_fork()
    else:
        keeper.after_fork(child=stage == "child")


@hookimpl
def mx_shutdown() -> None:
    """Pending work is finished, failures that no wait raised are reported, the engines close; a profile that is
    being recorded is written."""
    keeper = _keeper()
    if keeper is not None:
        keeper.shutdown()
    session = sys.modules.get("mx_engine.profiler.session")
    if session is not None:
        session.current().finish()


@hookimpl
def mx_diagnostics() -> dict[str, str]:
    """One line per engine that is in use."""
    keeper = _keeper()
    engines = [] if keeper is None else keeper.engines()
    if not engines:
        return {"engine": "none in use yet"}
    return {
        f"engine {engine.name}": f"{engine.workers} workers, {engine.pending} operations pending"
        for engine in engines
    }
