# SPDX-License-Identifier: Apache-2.0
"""Where the time goes: every operation of the process's engine, and what the program adds.

MXNet's `mx.profiler`. Recordings are written as Chrome trace JSON (`dump`; open it in Perfetto or
chrome://tracing) and summed up as tables (`dumps`). While the profiler does not run, an operation
pays one load of a flag for it.

Examples
--------
>>> import json, os, tempfile
>>> from mx_core import services
>>> from mx_engine import profiler
>>> path = os.path.join(tempfile.mkdtemp(), "profile.json")
>>> profiler.set_config(filename=path)
>>> profiler.set_state("run")
>>> with profiler.Task(profiler.Domain("training"), "epoch"):
...     services.engine().push(lambda: None, name="double")
...     services.engine().wait_for_all()
True
>>> profiler.dump()
>>> sorted({e["name"] for e in json.load(open(path))["traceEvents"] if e["ph"] != "M"})
['double', 'epoch']
"""

from __future__ import annotations

from mx_core.errors import ArgumentError
from mx_engine.profiler import statistics
from mx_engine.profiler.objects import Counter, Domain, Event, Frame, Marker, Task
from mx_engine.profiler.session import Config, current

__all__ = [
    "Counter",
    "Domain",
    "Event",
    "Frame",
    "Marker",
    "Task",
    "dump",
    "dumps",
    "pause",
    "resume",
    "set_config",
    "set_state",
    "start",
    "stop",
]


def set_config(
    *,
    filename: str = "profile.json",
    profile_all: bool = False,
    profile_symbolic: bool = True,
    profile_imperative: bool = True,
    profile_memory: bool = False,
    profile_api: bool = False,
    continuous_dump: bool = False,
    dump_period: float = 1.0,
    aggregate_stats: bool = True,
    profile_process: str = "worker",
    sinks: tuple[str, ...] = ("chrome_trace",),
) -> None:
    """What the next run records and where it goes; arguments left out take their defaults.

    Parameters
    ----------
    filename : str
        Where `dump` writes.
    profile_all, profile_symbolic, profile_imperative : bool
        Record the engine's operations if any of them is set. The engine does not know which
        front end pushed an operation.
    profile_memory, profile_api, aggregate_stats : bool
        Accepted for scripts written for MXNet, without effect: memory and calls of the C interface
        are not recorded; tables are always there.
    continuous_dump : bool
        Also write every `dump_period` seconds while the profiler runs.
    dump_period : float
        Seconds, more than 0.
    profile_process : str
        Only `worker`: this process.
    sinks : tuple of str
        Who writes the recording: names registered by plug-ins (`mx_register_profiler_sinks`), each
        called with a `mx_engine.profiler.recording.Recording` and the path.

    Raises
    ------
    ArgumentError
        A period of 0 or less, or another process.
    """
    _check_process("set_config", profile_process)
    if not dump_period > 0:
        raise ArgumentError(f"[profiler.set_config] dump_period: expected > 0, got {dump_period}")
    current().configure(
        Config(
            filename=str(filename),
            operations=profile_all or profile_symbolic or profile_imperative,
            sinks=tuple(sinks),
            dump_period=dump_period if continuous_dump else None,
        )
    )


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Starts (`run`) or ends (`stop`) recording.

    Operations pushed before the start or unfinished at the end are not recorded; wait for them
    first if they matter.

    Raises
    ------
    ArgumentError
        Another state, or another process than `worker`.
    """
    _check_process("set_state", profile_process)
    if state not in ("run", "stop"):
        raise ArgumentError(f"[profiler.set_state] state: expected 'run' or 'stop', got {state!r}")
    if state == "run":
        current().run()
    else:
        current().stop()


def start() -> None:
    """`set_state('run')`."""
    set_state("run")


def stop() -> None:
    """`set_state('stop')`."""
    set_state("stop")


def pause(profile_process: str = "worker") -> None:
    """Records nothing until `resume`; keeps what there is. Periodic dumps go on."""
    _check_process("pause", profile_process)
    current().pause()


def resume(profile_process: str = "worker") -> None:
    """Goes on recording after `pause`."""
    _check_process("resume", profile_process)
    current().run()


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Writes what was recorded, replacing the file as a whole.

    Parameters
    ----------
    finished : bool
        Ends recording; the next run starts a new recording. Otherwise it goes on, and a later
        dump holds all of it.

    Raises
    ------
    OSError
        The file cannot be written.
    PluginError
        A sink is not installed.
    """
    _check_process("dump", profile_process)
    current().dump(finished=finished)


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False) -> str:
    """How often and how long, per name.

    Parameters
    ----------
    reset : bool
        Forget what was recorded.
    format : {'table', 'json'}
    sort_by : {'total', 'avg', 'min', 'max', 'count'}
    ascending : bool

    Returns
    -------
    str
        One table per category: `operator` (run times), `operator queue` (from the push to the
        start), and the domains of the program. Times in milliseconds.

    Raises
    ------
    ArgumentError
        Another format or key.
    """
    text = statistics.render(current().recording(), format, sort_by, ascending)
    if reset:
        current().clear()
    return text


def _check_process(function: str, profile_process: str) -> None:
    if profile_process != "worker":
        raise ArgumentError(
            f"[profiler.{function}] profile_process: expected 'worker' (this process), "
            f"got {profile_process!r}"
        )
