# SPDX-License-Identifier: Apache-2.0
"""The engine types, and how the environment sets them up."""

from __future__ import annotations

import os

from mx_core.errors import ArgumentError
from mx_engine import lifecycle
from mx_engine._core import Engine
from mx_engine.settings import default_workers, integer

#: Names of the engine types, the default first.
TYPES = ("ThreadedEnginePerDevice", "ThreadedEngine", "NaiveEngine", "DebugEngine")


def create(name: str = TYPES[0], *, workers: int | None = None) -> Engine:
    """A new engine of its own, apart from the one the process's arrays use.

    It takes part in forks and in the end of the interpreter by itself. Threads: any.

    Parameters
    ----------
    name : str
        `ThreadedEnginePerDevice`: a pool of threads per device. `ThreadedEngine`: one pool for all
        devices of a type. `NaiveEngine`: no threads, everything runs at the push, on the pushing
        thread, and raises there; for debugging. `DebugEngine`: the first, but it refuses writes that a
        Python operation did not declare and waits that would never end, and says why; slow.
    workers : int, optional
        Compute threads per CPU device, at least 1. Default: `MXNET_CPU_WORKER_NTHREADS`, else one
        per core, at most four.

    Returns
    -------
    Engine

    Raises
    ------
    ArgumentError
        An unknown name, fewer than one worker, or an environment variable that is no number.

    Examples
    --------
    >>> engine = create(workers=2)
    >>> total, log = engine.new_variable(), []
    >>> for i in range(3):
    ...     engine.push(lambda i=i: log.append(i), writes=[total])
    >>> engine.wait_for_variable(total)
    True
    >>> log
    [0, 1, 2]
    """
    return make(name, lifecycle.by_interpreter(), workers)


def make(name: str, keeper: lifecycle.Keeper, workers: int | None = None) -> Engine:
    """A new engine in the care of `keeper`; otherwise as `create`."""
    if name not in TYPES:
        raise ArgumentError(f"[engine] unknown type {name!r}; known: {', '.join(TYPES)}")
    if workers is not None and workers < 1:
        raise ArgumentError(f"[{name}] workers: expected at least 1, got {workers}")
    sticky = os.environ.get("MX_ERRORS") == "sticky"
    if name == "NaiveEngine":
        engine = Engine(name, naive=True, sticky=sticky)
    else:
        n = workers or max(1, integer("MXNET_CPU_WORKER_NTHREADS", default_workers()))
        engine = Engine(
            name,
            per_device=name != "ThreadedEngine",
            debug=name == "DebugEngine",
            sticky=sticky,
            workers=n,
            priority_workers=max(1, integer("MXNET_CPU_PRIORITY_NTHREADS", 4)),
            copy_workers=max(1, integer("MXNET_GPU_COPY_NTHREADS", 2)),
            python_workers=max(1, integer("MX_PYTHON_WORKER_NTHREADS", n)),
        )
    engine.num_omp_threads_per_worker = integer("MXNET_OMP_MAX_THREADS", 0)
    keeper.add(engine)
    return engine
