# SPDX-License-Identifier: Apache-2.0
"""`mx launch`: starts the processes of a distributed job, watches them, and leaves none behind."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import click

from mx_core.cli.engines import Engine
from mx_kvstore.processes import Process, Stopped, Stops, described, end, watch
from mx_kvstore_mpi.hub import SILENCE, Hub
from mx_kvstore_mpi.job import Job
from mx_kvstore_mpi.mpi import unlink_shared_memory_of
from mx_kvstore_mpi.protocol import new_token
from mx_kvstore_mpi.settings import TIMEOUT

#: what -H takes
_HOSTS = "expected names of machines, separated by commas, or a file with one a line"
#: seconds between two ways to end a process
_GRACE = 3.0
#: how long the exit status of a process is waited for whose connection has ended, in seconds
_STATUS = 6.0


@dataclass
class Plan:
    """What is to be started.

    Parameters
    ----------
    job : Job
    command : sequence of str
        Of the workers; servers run their own.
    hosts : sequence of str
        Names of machines, which take processes in turn; empty: this one.
    environment : mapping
        Variables for all processes besides the launcher's own.
    deadline : float, optional
        Seconds that stores wait for other processes.
    grace : float
        Seconds that the others have to end by themselves when one is lost.
    """

    job: Job
    command: Sequence[str]
    hosts: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    deadline: float | None = None
    grace: float = 10.0


def variables(plan: Plan, number: int, hub: tuple[str, int], token: str) -> dict[str, str]:
    """What a process is told by its environment: mx's variables, and those of MXNet's launcher."""
    job = plan.job
    role, rank = job.role(number), job.rank(number)
    found = {
        "MX_KV_HUB": f"{hub[0]}:{hub[1]}", "MX_KV_TOKEN": token, "MX_KV_ROLE": role, "MX_KV_RANK": str(rank),
        "DMLC_ROLE": role, "DMLC_NUM_WORKER": str(job.workers), "DMLC_NUM_SERVER": str(job.servers),
        "DMLC_PS_ROOT_URI": hub[0], "DMLC_PS_ROOT_PORT": str(hub[1]),
        f"DMLC_{role.upper()}_ID": str(rank), **plan.environment,
    }  # fmt: skip
    if plan.deadline is not None:
        found["MX_KVSTORE_TIMEOUT"] = f"{plan.deadline:g}"
    return found


def command_of(plan: Plan, number: int, told: Mapping[str, str]) -> tuple[list[str], dict[str, str], bytes]:
    """The words that start a process, its environment, and what it reads.

    On another machine a shell reads the variables, the secret among them, from its input: a command line is seen by all
    users of a machine.
    """
    server = [sys.executable, "-m", "mx_kvstore_mpi.server"]
    words = list(plan.command) if plan.job.role(number) == "worker" else server
    if not plan.hosts:
        return words, {**os.environ, **told}, b""
    host = plan.hosts[number % len(plan.hosts)]
    script = [f"export {name}={shlex.quote(value)}" for name, value in told.items()]
    script += [f"cd {shlex.quote(os.getcwd())} || exit 1", f"exec {shlex.join(words)} < /dev/null"]
    remote = ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", host, "sh", "-s"]
    return remote, dict(os.environ), ("\n".join(script) + "\n").encode()


class Launch:
    """One start of a job. Threads: the main one.

    Parameters
    ----------
    plan : Plan
    stops : Stops
        That has been entered.
    """

    def __init__(self, plan: Plan, stops: Stops) -> None:
        self._plan = plan
        self._stops = stops
        self._processes: list[Process] = []
        self._failed = False
        self._over: set[int] = set()
        token = new_token()
        address = (_own_address(plan.hosts), 0) if plan.hosts else ("127.0.0.1", 0)
        self._hub = Hub(plan.job, token, address, SILENCE, self._explain)
        self._token = token

    def _explain(self, number: int) -> str | None:
        """How a process ended: its exit status comes a moment after the end of its connection."""
        if number >= len(self._processes):
            return None
        status = self._processes[number].ended(_STATUS)
        return None if status is None else described(status)

    def _start(self) -> None:
        for number in range(self._plan.job.size):
            self._stops.check()
            told = variables(self._plan, number, self._hub.address, self._token)
            words, environment, given = command_of(self._plan, number, told)
            self._processes.append(Process(self._plan.job.called(number), words, environment, given))
        self._hub.serve()
        for process in self._processes:
            process.begin()

    def _ended(self, number: int, status: int) -> bool:
        """Hears of an end; whether the job is at its end, too."""
        job = self._plan.job
        if status != 0:
            self._failed = True
            self._hub.report(number, described(status))
            return True
        self._hub.absent(number, f"{described(status)} before it joined the job")  # unless it has
        self._over.add(number)
        return self._over >= set(job.numbers("worker"))

    def run(self) -> int:
        """Starts everything and waits for its end; the exit status: 0, or that of the first that failed."""
        stopped = failed = 0
        try:
            self._start()
            watch(self._processes, self._ended, look=self._stops.check)
            if self._failed or self._hub.begun:  # else servers wait for a job that nobody wants
                self._wait_for_the_rest()
            failed = self._first_failure()
        except Stopped as error:
            stopped = error.number
            _say(f"stopped by {signal.Signals(stopped).name}")
        except OSError as error:
            failed = 127
            _say(f"cannot start {shlex.join(self._plan.command)}: {error}{_hint(self._plan.command)}")
        finally:  # signals that come now are noted, and interrupt nothing
            end(self._processes, _GRACE, interrupt=stopped == signal.SIGINT)
            unlink_shared_memory_of(self._plan.job)
            for process in self._processes:
                process.finish_output()
            self._hub.close()
        return 128 + stopped if stopped else failed

    def _first_failure(self) -> int:
        """Tells which process failed first, and returns its status as a shell has it; 0 if none did.

        Of one that ended by itself the others hear before its exit status is there, so they may be gone earlier.
        """
        failed = {
            number: status
            for number, status in enumerate(process.poll() for process in self._processes)
            if status
        }
        if not failed:
            return 0
        first = next((number for number in self._hub.ends if number in failed), min(failed))
        status = failed[first]
        called = self._plan.job.called(first)
        reason = next(iter(self._hub.reasons), "")
        if reason:
            _say(reason.removeprefix("[KVStore] "))
        if not (reason.startswith(f"{called} ") and described(status) in reason):
            _say(f"{called} (process {self._processes[first].pid}) {described(status)}")
        return 128 - status if status < 0 else status

    def _wait_for_the_rest(self) -> None:
        """After a failure the others are told of it, and have a time to end by themselves."""
        limit = time.monotonic() + self._plan.grace
        while any(process.poll() is None for process in self._processes) and time.monotonic() < limit:
            self._stops.check()
            time.sleep(0.02)


def _say(text: str) -> None:
    print(f"mx launch: {text}", file=sys.stderr, flush=True)


def _hint(command: Sequence[str]) -> str:
    """What to type where a command is a program for Python that is no command by itself."""
    if command[0].endswith(".py") and os.path.isfile(command[0]):
        return f"; it is a file for Python: mx launch … python {shlex.join(command)}"
    return ""


def _own_address(hosts: Sequence[str]) -> str:
    """The address of this machine that the first of some machines reaches it by."""
    name = hosts[0].rpartition("@")[2]
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((name, 9))
            return str(probe.getsockname()[0])
    except OSError as error:
        if os.path.isdir(name):
            raise click.UsageError(f"-H: {name!r} is a folder; {_HOSTS}") from error
        raise click.UsageError(
            f"-H: {name!r} is neither a file nor the name of a machine that is known here: {error}"
        ) from error


def _hosts(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Names separated by commas, or the lines of a file, as MXNet's launcher has it."""
    if value is None:
        return ()
    text, is_file = value, os.path.isfile(value)
    if is_file:
        try:
            with open(value) as file:
                words = [line.split("#")[0].split() for line in file.read().splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise click.BadParameter(f"the file {value!r} cannot be read: {error}") from error
        text = ",".join(each[0] for each in words if each)  # what follows, such as slots=4, does not count
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if is_file and not names:
        raise click.BadParameter(f"the file {value!r} names no machine; {_HOSTS}")
    wrong = [name for name in names if name.startswith("-")]
    if wrong or not names:
        raise click.BadParameter(f"{_HOSTS}, got {wrong[0] if wrong else value!r}")
    return names


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
    "-s",
    "--num-servers",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Parameter servers; 0: workers alone.",
)
@click.option(
    "-H", "--hostfile", "--hosts", "hosts", callback=_hosts, help="Machines: a,b,c or a file, by ssh."
)
@click.option(
    "--engine",
    type=Engine("launch", "mpi"),
    default="mpi",
    show_default=True,
    help="What moves the bytes. Each has options of its own: mx launch --engine NAME --help.",
)
@click.option("--launcher", type=click.Choice(["local", "ssh"]), help="As MXNet's; ssh needs -H.")
@click.option("--p3", is_flag=True, help="As MXNet's: values travel to servers in small slices.")
@click.option(
    "--env",
    "environment",
    multiple=True,
    callback=_pairs,
    help="NAME=VALUE for all processes; as often as needed.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(0.1),
    help=f"Seconds that a process waits for another; by default those of MX_KVSTORE_TIMEOUT, or {TIMEOUT:g}.",
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
    hosts: tuple[str, ...],
    engine: str,
    launcher: str | None,
    p3: bool,
    environment: dict[str, str],
    deadline: float | None,
    grace: float,
    command: tuple[str, ...],
) -> None:
    """Start a distributed training: COMMAND as NUM_WORKERS processes.

    Each is told its rank. Their lines are printed behind `[worker 0]`, `[worker 1]`, … If one fails, the others are
    told which, and all are ended; the exit status is that of the first. Ctrl-C ends all.
    """
    with Stops() as stops:
        if launcher == "ssh" and not hosts:
            raise click.UsageError("--launcher ssh needs machines: -H a,b,c")
        if launcher == "local" and hosts:
            raise click.UsageError("--launcher local starts everything here, and -H names machines")
        job = Job(num_workers, num_servers, name=secrets.token_hex(4))
        told = {"MX_KVSTORE_ENGINE": engine, **({"DMLC_PS_VAN_TYPE": "p3"} if p3 else {}), **environment}
        status = Launch(Plan(job, command, hosts, told, deadline, grace), stops).run()
    sys.exit(status)
