# SPDX-License-Identifier: Apache-2.0
"""`mx launch --engine ray`: starts servers on Ray and workers here, watches them, and does what the policy says."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import click

from mx_core.cli.engines import Engine
from mx_kvstore.processes import Process, described, end
from mx_kvstore_ray import actors, settings
from mx_kvstore_ray.cluster import Cluster
from mx_kvstore_ray.errors import ClusterError, Stopped, in_a_line, stop_behind
from mx_kvstore_ray.progress import saying
from mx_kvstore_ray.settings import GIVEN_UP, POLICIES, Place

#: seconds between two ways to end a process, between two looks at all, and between two questions to a lost server
_GRACE, _LOOK, _AGAIN = 3.0, 0.02, 0.2
#: seconds that Ray has to start a server
_BEGIN = 600.0


@dataclass
class Plan:
    """What is to be started.

    Parameters
    ----------
    workers, servers : int
    command : sequence of str
        Of the workers.
    address : str, optional
        Of a Ray cluster that runs.
    folder : str, optional
        Where servers keep their files, also those of an earlier job with which they begin.
    environment : mapping
        Variables for all workers besides the launcher's own.
    on_loss : {"stop", "continue", "restart"}
    restarts : int
        How often a worker may be started anew.
    timeout, grace : float
        Seconds that a process waits for others, and that these have to end by themselves when one is lost.
    """

    workers: int
    servers: int
    command: Sequence[str]
    address: str | None = None
    folder: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    on_loss: str = POLICIES[0]
    restarts: int = 3
    timeout: float = settings.TIMEOUT
    grace: float = 10.0


class _Servers:
    """The servers as the launcher sees them: it tells them of lost workers until they have heard it."""

    def __init__(self, plan: Plan, cluster: Cluster, job: str) -> None:
        self._ray = cluster.ray
        self._retried = actors.retried(self._ray)
        interval = settings.number("MX_KVSTORE_RAY_CHECKPOINT", settings.CHECKPOINT, 0.0)
        self._handles = [
            actors.start(
                self._ray,
                server,
                (
                    server,
                    plan.workers,
                    plan.on_loss,
                    f"{cluster.folder}/server-{server}",
                    plan.timeout,
                    interval,
                    job,
                ),
            )
            for server in range(plan.servers)
        ]
        self._waiting: list[tuple[Any, Any, str, dict[str, Any], float]] = []
        #: by server, since when it has not answered
        self._failing: dict[Any, float] = {}

    def begin(self) -> None:
        """Waits until all are there.

        Raises
        ------
        ClusterError  one does not start; the message says why
        """
        answers = [handle.answer.remote("join", None, {}) for handle in self._handles]
        for server, answer in enumerate(answers):
            try:
                self._ray.get(answer, timeout=_BEGIN)
            except self._retried as error:
                raise ClusterError(f"server {server} does not start: {in_a_line(error)}") from error
            except self._ray.exceptions.GetTimeoutError as error:
                raise ClusterError(f"server {server} did not start within {_BEGIN:.0f} s") from error

    def tell(self, command: str, told: dict[str, Any]) -> None:
        """Sends a command to all; does not block."""
        for handle in self._handles:
            self._waiting.append((handle, handle.answer.remote(command, None, told), command, told, 0.0))

    def look(self) -> bool:
        """Sends again what a lost server has not answered; whether all is answered.

        Raises
        ------
        ClusterError  a server does not come back
        """
        left, now = [], time.monotonic()
        for handle, answer, command, told, after in self._waiting:
            if now < after:
                left.append((handle, answer, command, told, after))
                continue
            if not self._ray.wait([answer], timeout=0)[0]:
                left.append((handle, answer, command, told, 0.0))
                continue
            try:
                self._ray.get(answer)
                self._failing.pop(handle, None)
            except self._retried as error:
                if now - self._failing.setdefault(handle, now) > GIVEN_UP:
                    raise ClusterError(
                        f"server {self._handles.index(handle)} is lost, and did not come back within {GIVEN_UP:.0f} s: "
                        f"{in_a_line(error)}"
                    ) from error
                again = handle.answer.remote(command, None, told)
                left.append((handle, again, command, told, now + _AGAIN))
        self._waiting = left
        return not left


class Launch:
    """One start of a job. Threads: the main one, which gets signals.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._job = f"mx-{secrets.token_hex(4)}"
        self._processes: list[Process] = []
        self._running: dict[int, Process] = {}
        self._starts = dict.fromkeys(range(plan.workers), 0)
        self._failed: int | None = None
        self._well = 0
        self._servers: _Servers | None = None

    def run(self) -> int:
        """Starts everything and waits for its end; the exit status: 0, or that of the first worker that failed."""
        stopped = 0
        cluster: Cluster | None = None
        try:
            with _signals() as quiet:
                try:
                    cluster = self._cluster()
                    self._catch(quiet)
                    with saying("starting servers", _say, at_once=False):
                        self._servers = _Servers(self._plan, cluster, self._job)
                        self._servers.begin()
                    for rank in range(self._plan.workers):
                        self._start(rank, cluster)
                    self._watch(cluster)
                except (Stopped, SystemExit, SystemError) as error:
                    # SystemExit comes of Ray's handler of SIGTERM, which it sets while it starts.
                    stop = stop_behind(error)
                    if stop is None and isinstance(error, SystemError):
                        raise
                    stopped = signal.SIGTERM if stop is None else stop.number
                    _say(f"stopped by {signal.Signals(stopped).name}")
                except ClusterError as error:
                    self._failed = 1
                    _say(str(error))
                except OSError as error:
                    self._failed = 127
                    _say(f"cannot start {shlex.join(self._plan.command)}: {error}")
                finally:
                    for number in quiet:
                        signal.signal(number, signal.SIG_IGN)  # nothing interrupts the end
                    end(self._processes, _GRACE, interrupt=stopped == signal.SIGINT)
                    for process in self._processes:
                        process.finish_output()
                    if cluster is not None:
                        cluster.close()
        except Stopped as error:
            stopped = error.number
        return 128 + stopped if stopped else self._failed or 0

    def _cluster(self) -> Cluster:
        plan = self._plan
        _check_folder(plan)
        what = f"connecting to Ray at {plan.address}" if plan.address else "starting Ray"
        with saying(what, _say, at_once=True):
            return Cluster(plan.address, self._job, plan.servers, plan.folder)

    @staticmethod
    def _catch(numbers: Sequence[int]) -> None:
        for number in numbers:  # again, as Ray has set its own
            signal.signal(number, _stop)

    def _start(self, rank: int, cluster: Cluster) -> None:
        plan = self._plan
        place = Place(cluster.address, self._job, rank, self._starts[rank], plan.workers, plan.servers)
        environment = {
            **os.environ, "MX_KVSTORE_ENGINE": "ray", **place.variables(), **plan.environment,
            "MX_KVSTORE_TIMEOUT": f"{plan.timeout:g}", "MX_KVSTORE_RAY_ON_LOSS": plan.on_loss,
        }  # fmt: skip
        process = Process(f"worker {rank}", list(plan.command), environment)
        self._processes.append(process)
        self._running[rank] = process
        process.begin()

    def _watch(self, cluster: Cluster) -> None:
        """Until all workers have ended, or the job has failed."""
        assert self._servers is not None
        while self._running and self._failed is None:
            for rank, process in list(self._running.items()):
                status = process.poll()
                if status is not None:
                    del self._running[rank]
                    self._ended(rank, process, status, cluster)
            self._servers.look()
            time.sleep(_LOOK)
        limit = time.monotonic() + self._plan.grace
        while self._failed is not None and time.monotonic() < limit:
            self._servers.look()
            if all(process.poll() is not None for process in self._running.values()):
                break
            time.sleep(_LOOK)

    def _ended(self, rank: int, process: Process, status: int, cluster: Cluster) -> None:
        """What the policy says of the end of a worker."""
        assert self._servers is not None
        start = self._starts[rank]
        if status == 0:
            self._well += 1
            self._servers.tell("ended", {"rank": rank})
            return
        what = f"worker {rank} (process {process.pid}) {described(status)}"
        process.signal(signal.SIGKILL)  # and what it has started
        then = self._plan.on_loss
        if then == "restart" and start >= self._plan.restarts:
            what += f", and was started {start + 1} times"
            then = "stop"
        elif then == "continue" and not self._running and not self._well:
            then = "stop"
        lost = {"rank": rank, "start": start, "then": then, "why": f"[KVStore] {what}"}
        self._servers.tell("lost", lost)
        if then == "stop":
            _say(what)
            self._failed = 128 - status if status < 0 else status
        elif then == "restart":
            _say(f"{what}; it is started anew")
            self._starts[rank] = start + 1
            while not self._servers.look():  # before its pushes come
                time.sleep(_LOOK)
            self._start(rank, cluster)
        else:
            _say(f"{what}; the others go on")


def _check_folder(plan: Plan) -> None:
    """Refuses files of another number of servers, where they are on this machine.

    Raises
    ------
    ClusterError
    """
    if plan.folder is None or plan.address is not None:
        return
    found = len(list(Path(plan.folder).glob("server-*")))
    if found not in (0, plan.servers):
        raise ClusterError(
            f"{plan.folder} has the files of {found} servers, and this job has {plan.servers}; start it with "
            f"-s {found}, or name another folder"
        )


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Has signals end the job; gives which."""
    before = {
        number: signal.signal(number, _stop)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # as nohup has it
    }
    try:
        yield list(before)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def _say(text: str) -> None:
    print(f"mx launch: {text}", file=sys.stderr, flush=True)


def _pairs(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for each in value:
        name, sign, text = each.partition("=" if "=" in each else ":")
        if not sign or not name.isidentifier():
            raise click.BadParameter(f"expected NAME=VALUE, got {each!r}")
        found[name] = text
    return found


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("-n", "--num-workers", type=click.IntRange(1), required=True, help="Workers to start.")
@click.option(
    "-s", "--num-servers", type=click.IntRange(1), default=1, help="Parameter servers, by default 1."
)
@click.option("--engine", type=Engine("launch", "ray"), default="ray", help="What moves the bytes.")
@click.option("--address", help="host:port of a Ray cluster that runs; by default one is started here.")
@click.option("--folder", type=click.Path(file_okay=False), help="Where servers keep checkpoints.")
@click.option(
    "--on-loss",
    type=click.Choice(POLICIES),
    help="What is done when a worker is lost; by default as MX_KVSTORE_RAY_ON_LOSS says, or stop.",
)
@click.option(
    "--max-restarts",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="How often a worker is started anew.",
)
@click.option(
    "--env",
    "environment",
    multiple=True,
    callback=_pairs,
    help="NAME=VALUE for all workers; as often as needed.",
)
@click.option("--deadline", type=click.FloatRange(0.1), help="Seconds that a process waits for another.")
@click.option(
    "--grace",
    type=click.FloatRange(0.0),
    default=10.0,
    show_default=True,
    help="Seconds for the others when one is lost.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def launch(
    num_workers: int,
    num_servers: int,
    engine: str,
    address: str | None,
    folder: str | None,
    on_loss: str | None,
    max_restarts: int,
    environment: dict[str, str],
    deadline: float | None,
    grace: float,
    command: tuple[str, ...],
) -> None:
    """Start a distributed training on Ray: COMMAND as NUM_WORKERS processes, and servers.

    Each is told its rank. Their lines are printed behind `[worker 0]`, `[worker 1]`, … If one is lost, the job stops,
    goes on without it, or starts it anew, as `--on-loss` or MX_KVSTORE_RAY_ON_LOSS says. A server that is lost comes
    back with what it held. Ctrl-C ends all.
    """
    folder = folder or os.environ.get("MX_KVSTORE_RAY_FOLDER") or None
    plan = Plan(
        num_workers, num_servers, command, address, folder and os.path.abspath(folder), environment,
        on_loss or settings.on_loss(), max_restarts, deadline or settings.timeout(), grace,
    )  # fmt: skip
    sys.exit(Launch(plan).run())
