# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-engine."""

from __future__ import annotations

import sys
from typing import Any

from mx_core import hookimpl


@hookimpl
def mx_register_engines(registry: Any) -> None:
    """The three engine types under MXNet's names."""
    registry.add(
        "ThreadedEnginePerDevice",
        "mx_engine.engines:threaded_engine_per_device",
        priority=20,
    )
    registry.add(
        "ThreadedEngine",
        "mx_engine.engines:threaded_engine",
        priority=10,
        aliases=("ThreadedEnginePooled",),
    )
    registry.add("NaiveEngine", "mx_engine.engines:naive_engine", priority=0)


@hookimpl
def mx_fork(stage: str) -> None:
    """Quiet engines before the fork, opened again after it."""
    lifecycle = sys.modules.get("mx_engine.lifecycle")  # absent: no engine was ever made
    if lifecycle is None:
        return
    if stage == "before":
        lifecycle.before_fork()
    else:
        lifecycle.after_fork(child=stage == "child")


@hookimpl
def mx_shutdown() -> None:
    """Pending work is finished, unseen failures are told, the engines close."""
    lifecycle = sys.modules.get("mx_engine.lifecycle")
    if lifecycle is not None:
        lifecycle.shutdown()


@hookimpl
def mx_diagnostics() -> dict[str, str]:
    """One line per engine of the process."""
    lifecycle = sys.modules.get("mx_engine.lifecycle")
    if lifecycle is None:
        return {"engine": "not used yet"}
    return {
        f"engine {engine.name}": f"{engine.workers} workers, {engine.pending} pending"
        for engine in lifecycle.engines()
    }
