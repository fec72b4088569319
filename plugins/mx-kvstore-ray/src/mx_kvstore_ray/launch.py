# SPDX-License-Identifier: Apache-2.0
"""`mx launch --engine ray`: starts servers on Ray and workers here, watches them, and does what the policy says."""

from __future__ import annotations

import errno
import os
import secrets
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from mx_core.cli.engines import Engine
from mx_kvstore.processes import Process, Stopped, Stops, described, end
from mx_kvstore_ray import actors, settings
from mx_kvstore_ray.cluster import Cluster
from mx_kvstore_ray.errors import ClusterError, in_a_line
from mx_kvstore_ray.progress import saying
from mx_kvstore_ray.settings import GIVEN_UP, POLICIES, Place, ServerPlace

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
    interval : float
        Seconds between two checkpoints of a server.
    new_optimizer : bool
        Whether the optimizer of the program takes the place of another one in files of an earlier job.
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
    interval: float = settings.CHECKPOINT
    new_optimizer: bool = False


class _Servers:
    """The servers as the launcher sees them: it tells them of lost workers until they have heard it."""

    def __init__(self, plan: Plan, cluster: Cluster, job: str, stops: Stops) -> None:
        self._ray = cluster.ray
        self._stops = stops
        self._retried = actors.retried(self._ray)
        places = [
            ServerPlace(
                server, plan.servers, plan.workers, plan.on_loss, f"{cluster.folder}/server-{server}",
                plan.timeout, plan.interval, job, plan.new_optimizer,
            )
            for server in range(plan.servers)
        ]  # fmt: skip
        self._handles = [actors.start(self._ray, place) for place in places]
        self._waiting: list[tuple[Any, Any, str, dict[str, Any], float]] = []
        #: by server, since when it has not answered
        self._failing: dict[Any, float] = {}
        #: the failures of the job that servers had when they heard of a lost worker
        self.faults: list[str] = []

    def begin(self) -> None:
        """Waits until all are there.

        Raises
        ------
        ClusterError  one does not start; the message says why
        Stopped       a signal came
        """
        answers = [handle.answer.remote("join", None, {}) for handle in self._handles]
        limit = time.monotonic() + _BEGIN
        for server, answer in enumerate(answers):
            while not self._ray.wait([answer], timeout=_LOOK)[0]:
                self._stops.check()
                if time.monotonic() > limit:
                    raise ClusterError(f"server {server} did not start within {_BEGIN:.0f} s")
            try:
                self._ray.get(answer)
            except self._retried as error:
                raise ClusterError(f"server {server} does not start: {in_a_line(error)}") from error

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
                _, found, _ = self._ray.get(answer)
                self._failing.pop(handle, None)
                if found.get("fault"):
                    self.faults.append(found["fault"])
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
    stops : Stops
        That has been entered.
    """

    def __init__(self, plan: Plan, stops: Stops) -> None:
        self._plan = plan
        self._stops = stops
        self._job = f"mx-{secrets.token_hex(4)}"
        self._processes: list[Process] = []
        self._running: dict[int, Process] = {}
        self._starts = dict.fromkeys(range(plan.workers), 0)
        #: exit status of the first worker with which the job failed, and what became of it
        self._failed: int | None = None
        self._what = ""
        self._well = 0
        self._servers: _Servers | None = None

    def run(self) -> int:
        """Starts everything and waits for its end; the exit status: 0, or that of the first worker that failed."""
        stopped, told = 0, ""
        cluster: Cluster | None = None
        try:
            self._look_for_command()
            cluster = self._cluster()
            with saying("starting servers", _say, at_once=False):
                self._servers = _Servers(self._plan, cluster, self._job, self._stops)
                self._servers.begin()
            for rank in range(self._plan.workers):
                self._stops.check()
                self._start(rank, cluster)
            self._watch(cluster)
        except Stopped as error:
            stopped = error.number
            _say(f"stopped by {signal.Signals(stopped).name}")
        except ClusterError as error:
            self._failed, told = self._failed or 1, str(error)
        except OSError as error:
            self._failed, told = (
                127,
                f"cannot start {shlex.join(self._plan.command)}: {error.strerror or error}",
            )
        finally:  # signals that come now are noted, and interrupt nothing
            end(self._processes, _GRACE, interrupt=stopped == signal.SIGINT)
            for process in self._processes:
                process.finish_output()
            for text in () if stopped else (*self._causes(), told):
                if text:
                    _say(text)
            if cluster is not None:
                cluster.close()
        return 128 + stopped if stopped else self._failed or 0

    def _look_for_command(self) -> None:
        """Raises an OSError before anything is started, if there is no such command."""
        command = self._plan.command[0]
        if shutil.which(command, path={**os.environ, **self._plan.environment}.get("PATH")) is None:
            hint = f"; for Python it is: python {command}" if command.endswith(".py") else ""
            what = "it may not be executed" if os.path.isfile(command) else "there is no such command"
            raise OSError(errno.ENOENT, f"{what}{hint}")

    def _causes(self) -> tuple[str, ...]:
        """Why the job failed, as all workers were told, and the worker that ended first; these may be the same."""
        said = [fault.removeprefix("[KVStore] ") for fault in self._servers.faults] if self._servers else []
        return *[fault for fault in said if fault != self._what][:1], self._what

    def _cluster(self) -> Cluster:
        plan = self._plan
        what = f"connecting to Ray at {plan.address}" if plan.address else "starting Ray"
        with saying(what, _say, at_once=True):
            return Cluster(plan.address, self._job, plan.servers, plan.folder, self._stops)

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
            self._pause()
        limit = time.monotonic() + self._plan.grace
        while self._failed is not None and time.monotonic() < limit:
            if self._servers.look() and all(process.poll() is not None for process in self._running.values()):
                break
            self._pause()

    def _pause(self) -> None:
        self._stops.check()
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
        while then != "stop" and not self._servers.look():  # before its pushes come
            self._pause()
        if then == "stop" or self._servers.faults:
            if self._failed is None:
                self._failed, self._what = 128 - status if status < 0 else status, what
        elif then == "restart":
            _say(f"{what}; it is started anew")
            self._starts[rank] = start + 1
            self._start(rank, cluster)
        else:
            _say(f"{what}; the others go on")


def _say(text: str) -> None:
    print(f"mx launch: {text}", file=sys.stderr, flush=True)


def _address(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    host, _, port = (value or "").rpartition(":")
    if value is not None and not (host and port.isdecimal()):
        raise click.BadParameter(f"expected host:port, got {value!r}")
    return value


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
    "-s", "--num-servers", type=click.IntRange(1), default=1, show_default=True, help="Parameter servers."
)
@click.option(
    "--engine",
    type=Engine("launch", "ray"),
    default="ray",
    help="What moves the bytes. Each has options of its own: mx launch --engine NAME --help.",
)
@click.option(
    "--address",
    callback=_address,
    help="host:port of a Ray cluster that runs; by default one is started here.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False),
    help="Where servers keep their files, from which a later job goes on; by default that of MX_KVSTORE_RAY_FOLDER, or "
    "one in memory that ends with the job.",
)
@click.option(
    "--new-optimizer",
    is_flag=True,
    help="Where an earlier job's files have another optimizer than the program sets, take the program's, with new "
    "states. Without it that is an error.",
)
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
@click.option(
    "--deadline",
    type=click.FloatRange(0.1),
    help=f"Seconds that a process waits for another; by default those of MX_KVSTORE_TIMEOUT, or {settings.TIMEOUT:g}.",
)
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
    new_optimizer: bool,
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
    back with what it held. The exit status is that of the first worker that failed. Ctrl-C ends all.
    """
    with Stops() as stops:
        folder = folder or os.environ.get("MX_KVSTORE_RAY_FOLDER") or None
        plan = Plan(
            num_workers, num_servers, command, address, folder and os.path.abspath(folder), environment,
            on_loss or settings.on_loss(), max_restarts, deadline or settings.timeout(), grace,
            settings.checkpoint(), new_optimizer,
        )  # fmt: skip
        status = Launch(plan, stops).run()
    sys.exit(status)
