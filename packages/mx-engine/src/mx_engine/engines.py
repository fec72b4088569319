# SPDX-License-Identifier: Apache-2.0
"""The engine types, and how the environment sets them up."""

from __future__ import annotations

from mx_engine import lifecycle
from mx_engine._core import Engine
from mx_engine.settings import default_workers, integer


def threaded_engine_per_device(*, workers: int | None = None) -> Engine:
    """A new engine with a pool of threads per device; the default.

    Parameters
    ----------
    workers : int, optional
        Compute threads per CPU device; default `MXNET_CPU_WORKER_NTHREADS`, else one per core, at
        most four.
    """
    return _threaded("ThreadedEnginePerDevice", workers, per_device=True)


def threaded_engine(*, workers: int | None = None) -> Engine:
    """A new engine whose threads serve all devices of a kind; parameters as above."""
    return _threaded("ThreadedEngine", workers, per_device=False)


def naive_engine() -> Engine:
    """A new engine without threads: everything runs at the push, on the pushing thread, and raises
    there. For debugging."""
    return lifecycle.watch(Engine("NaiveEngine", naive=True))


def _threaded(name: str, workers: int | None, *, per_device: bool) -> Engine:
    if workers is None:
        workers = integer("MXNET_CPU_WORKER_NTHREADS", default_workers())
    engine = Engine(
        name,
        per_device=per_device,
        workers=max(1, workers),
        priority_workers=max(1, integer("MXNET_CPU_PRIORITY_NTHREADS", 4)),
        copy_workers=max(1, integer("MXNET_GPU_COPY_NTHREADS", 2)),
        python_workers=max(1, integer("MX_PYTHON_WORKER_NTHREADS", max(1, workers))),
    )
    return lifecycle.watch(engine)
