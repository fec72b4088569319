# SPDX-License-Identifier: Apache-2.0
"""The profiler: operations of the engine, calls, memory, and events that the program adds.

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
from mx_engine.profiler.former_names import dump_profile, profiler_set_config, profiler_set_state
from mx_engine.profiler.objects import Counter, Domain, Event, Frame, Marker, Task
from mx_engine.profiler.scopes import scope
from mx_engine.profiler.servers import set_kvstore_handle, to_servers
from mx_engine.profiler.session import Config, current

__all__ = [
    "Counter",
    "Domain",
    "Event",
    "Frame",
    "Marker",
    "Task",
    "dump",
    "dump_profile",
    "dumps",
    "pause",
    "profiler_set_config",
    "profiler_set_state",
    "resume",
    "scope",
    "set_config",
    "set_kvstore_handle",
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
    profile_all : bool
        All of the following.
    profile_symbolic : bool
        Show operations that run whole programs, such as executors', and the parts they tell of.
    profile_imperative : bool
        Show all other operations of the engine.
    profile_memory : bool
        Record how many bytes are in use and pooled, as counters per device.
    profile_api : bool
        Record the program's calls into mx. It slows Python down while the profiler runs.
    continuous_dump : bool
        Also write every `dump_period` seconds while the profiler runs.
    dump_period : float
        Seconds, more than 0.
    aggregate_stats : bool
        Accepted for scripts written for MXNet: tables are always there.
    profile_process : {'worker', 'server'}
        This process, or the servers of the store given to `set_kvstore_handle`.
    sinks : tuple of str
        Who writes the recording: names registered by plug-ins (`mx_register_profiler_sinks`), each
        called with a `mx_engine.profiler.recording.Recording` and the path.

    Raises
    ------
    ArgumentError
        A period of 0 or less, or another process.
    """
    if not dump_period > 0:
        raise ArgumentError(f"[profiler.set_config] dump_period: expected > 0, got {dump_period}")
    if to_servers(
        "set_config",
        profile_process,
        filename=str(filename),
        profile_all=profile_all,
        profile_symbolic=profile_symbolic,
        profile_imperative=profile_imperative,
        profile_memory=profile_memory,
        profile_api=profile_api,
        continuous_dump=continuous_dump,
        dump_period=dump_period,
        sinks=tuple(sinks),
    ):
        return
    current().configure(
        Config(
            filename=str(filename),
            symbolic=profile_all or profile_symbolic,
            imperative=profile_all or profile_imperative,
            calls=profile_all or profile_api,
            memory=profile_all or profile_memory,
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
        Another state, or no such process.
    """
    if state not in ("run", "stop"):
        raise ArgumentError(f"[profiler.set_state] state: expected 'run' or 'stop', got {state!r}")
    if to_servers("set_state", profile_process, state=state):
        return
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
    if not to_servers("pause", profile_process):
        current().pause()


def resume(profile_process: str = "worker") -> None:
    """Goes on recording after `pause`."""
    if not to_servers("resume", profile_process):
        current().run()


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Writes what was recorded, replacing the file as a whole.

    Parameters
    ----------
    finished : bool
        Ends recording; the next run starts a new recording. Otherwise it goes on, and a later
        dump holds all of it.
    profile_process : {'worker', 'server'}

    Raises
    ------
    OSError
        The file cannot be written.
    PluginError
        A sink is not installed.
    """
    if not to_servers("dump", profile_process, finished=finished):
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
        start), `api` (calls), and the domains of the program, times in milliseconds; counters, memory
        among them, with their least, largest and mean values.

    Raises
    ------
    ArgumentError
        Another format or key.
    """
    text = statistics.render(current().recording(), format, sort_by, ascending)
    if reset:
        current().clear()
    return text
