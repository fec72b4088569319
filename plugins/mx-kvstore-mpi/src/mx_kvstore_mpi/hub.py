# SPDX-License-Identifier: Apache-2.0
"""The hub of a job: where its processes meet, find each other, and hear who is lost.

The launcher has it; with MXNet's own launcher the scheduler has it. A process is lost when its connection ends before
it said that it leaves, which the system tells within milliseconds of a kill, or when it has said nothing for some
seconds, which a stopped process and a cut network have in common. All others are told at once, by name and role.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mx_kvstore.processes import described
from mx_kvstore_mpi.errors import ProtocolError
from mx_kvstore_mpi.job import Job
from mx_kvstore_mpi.pmi import Meeting
from mx_kvstore_mpi.protocol import LIMIT, Channel, accept

#: seconds of silence after which a process counts as lost
SILENCE = 10.0
#: seconds between two signs of life
BEAT = 1.0
#: how a process was lost whose connection has ended
_ENDED = "has ended"
#: connections that have proved nothing yet, besides two for each process of the job; more end the oldest ones
_STRANGERS = 64
#: seconds after which a listener that cannot accept, as there are too many open files, tries again
_AGAIN = 0.1
#: characters of a status
_STATUS = 400
#: bytes of the statuses that an answer has room for
_ROOM = LIMIT - 1000


@dataclass
class _Member:
    number: int
    channel: Channel
    pid: int
    host: str
    leaving: bool = False
    lost: bool = False
    status: str = "starts"
    since: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, message: dict[str, Any]) -> None:
        """Sends a message; whoever is gone is noticed by the thread that reads from it."""
        with self.lock, contextlib.suppress(OSError):
            self.channel.send(message)


class Hub:
    """Serves the processes of one job. Threads: any.

    Parameters
    ----------
    job : Job
    token : str
        What every process must know.
    address : tuple of str and int
        Where to listen: by default on loopback, at any free port.
    silence : float
        Seconds without a sign of life after which a process is lost.
    explain : callable, optional
        (number) -> how that process ended, such as `was killed by signal 9`, or None; may block for a moment.
    """

    def __init__(
        self,
        job: Job,
        token: str,
        address: tuple[str, int] = ("127.0.0.1", 0),
        silence: float = SILENCE,
        explain: Callable[[int], str | None] | None = None,
    ) -> None:
        self.job = job
        self._token = token
        self._silence = silence
        self._explain = explain
        self._lock = threading.RLock()
        #: taken before the other: who hears of several losses hears of the first one first
        self._telling = threading.RLock()
        self._members: dict[int, _Member] = {}
        self._unproven: dict[socket.socket, None] = {}
        self._absent: dict[int, str] = {}
        #: by process that has ended its program in good order, and that another one misses: who does, and what for
        self._missed: dict[int, str] = {}
        self._meeting: Meeting | None = None
        self._finishing = False
        self._closed = threading.Event()
        self._all_gone = threading.Event()
        #: what happened to processes that were lost, in order
        self.losses: list[str] = []
        #: why others had to end, in order: what a process found wrong, what it waited for until its deadline, how one
        #: ended that was still needed, or that the first one is lost without an exit status that says so
        self.reasons: list[str] = []
        self._ends: dict[int, None] = {}
        self._listener = socket.create_server(address, backlog=max(16, 2 * job.size))
        self.address: tuple[str, int] = self._listener.getsockname()[:2]

    def serve(self) -> None:
        """Starts the threads that serve the processes. Until then they wait."""
        threading.Thread(target=self._accept, name="mx hub: accept", daemon=True).start()

    def close(self) -> None:
        """Stops listening and ends all connections."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            members = list(self._members.values())
            meeting = self._meeting
        if meeting is not None:
            meeting.give_up()
        for member in members:
            member.channel.close()

    @property
    def begun(self) -> bool:
        """Whether all processes have come."""
        return self._meeting is not None

    @property
    def ends(self) -> list[int]:
        """Numbers of the processes whose programs have ended, well or not, in the order in which they did."""
        with self._lock:
            return list(self._ends)

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until every process that ever came has gone; False when the time ran out."""
        return self._all_gone.wait(timeout)

    # ---- connections ----

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:  # such as too many open files, which need not last
                self._closed.wait(_AGAIN)
                continue
            with self._lock:
                self._unproven[sock] = None
                if len(self._unproven) > _STRANGERS + 2 * self.job.size:
                    with contextlib.suppress(OSError):
                        next(iter(self._unproven)).shutdown(socket.SHUT_RDWR)
            threading.Thread(target=self._welcome, args=(sock,), name="mx hub: peer", daemon=True).start()

    def _welcome(self, sock: socket.socket) -> None:
        try:
            channel = accept(sock, self._token)
            hello = channel.receive()
        except (ProtocolError, OSError):
            hello = None
        with self._lock:
            self._unproven.pop(sock, None)
        if hello is None:
            sock.close()
            return
        kind = hello.get("kind")
        try:
            if kind == "member":
                self._serve(channel, hello)
            elif kind == "pmi" and self._meeting is not None:
                sock.settimeout(None)
                channel.send({"ready": True})
                self._meeting.serve(sock)
            else:
                channel.send({"refused": f"expected a member of the job, got {kind!r}"})
                channel.close()
        except OSError:
            channel.close()

    def _number(self, hello: dict[str, Any]) -> int:
        """The number that a process asks for, or the next one of its role."""
        role, wanted = hello.get("role"), hello.get("rank")
        if role not in ("worker", "server"):
            raise ProtocolError(f"role: expected worker or server, got {role!r}")
        numbers = self.job.numbers(role)
        if wanted is None:
            free = [number for number in numbers if number not in self._members]
            if not free:
                raise ProtocolError(f"the job has {len(numbers)} {role}s, and all of them are there")
            return free[0]
        if not isinstance(wanted, int) or not 0 <= wanted < len(numbers):
            raise ProtocolError(f"the job has {len(numbers)} {role}s; there is no {role} {wanted!r}")
        if numbers[wanted] in self._members:
            raise ProtocolError(f"{role} {wanted} is there already")
        return numbers[wanted]

    def _serve(self, channel: Channel, hello: dict[str, Any]) -> None:
        with self._lock:
            try:
                number = self._number(hello)
            except ProtocolError as error:
                channel.send({"refused": str(error)})
                channel.close()
                return
            member = _Member(number, channel, int(hello.get("pid", 0)), str(hello.get("host", ""))[:200])
            self._members[number] = member
            complete = len(self._members) == self.job.size
            absent = list(self._absent.items())
        channel.socket.settimeout(self._silence)
        for other, how in absent:
            self.absent(other, how)
        if complete:
            self._begin()
        why = self._listen(member)
        if why is not None:
            self._lose(member, why)
        channel.close()
        with self._lock:
            member.lost = True
            if self._meeting is not None and all(each.lost for each in self._members.values()):
                self._all_gone.set()

    def _begin(self) -> None:
        """All are there: says so, with everything a process needs to know of the others."""
        members = [self._members[number] for number in range(self.job.size)]
        hosts = [member.host for member in members]
        known = {host: place for place, host in enumerate(dict.fromkeys(hosts))}
        self._meeting = Meeting(self.job.meeting, [known[host] for host in hosts])
        for member in members:
            member.tell({
                "start": member.number, "workers": self.job.workers, "servers": self.job.servers,
                "job": self.job.name, "generation": self.job.generation, "hosts": len(known),
            })  # fmt: skip

    def _listen(self, member: _Member) -> str | None:
        """Reads what a process says until it ends; how it was lost, or None."""
        while True:
            try:
                message = member.channel.receive()
            except TimeoutError:
                return f"has given no sign of life for {self._silence:g} s"
            except (ProtocolError, OSError) as error:
                return f"is not understood any more: {error}"
            if message is None:
                return None if self._finishing or self._closed.is_set() else _ENDED
            if "status" in message:
                member.status, member.since = str(message["status"])[:_STATUS], time.monotonic()
            if "leaving" in message:
                self._leave(member)
            if "wrong" in message:
                self._refuse(str(message["wrong"])[:4000])
            if "gave up" in message:
                self._give_up(member, str(message["gave up"])[:4000])
            if "misses" in message:
                self._miss(message["misses"], str(message.get("what"))[:2000])
            if "ask" in message:
                member.tell({"statuses": self._statuses(member)})

    def _statuses(self, asking: _Member) -> list[str]:
        with self._lock:
            others = [each for _, each in sorted(self._members.items()) if each is not asking]
        found: list[str] = []
        room = _ROOM
        for place, each in enumerate(others):
            text = f"{self.job.called(each.number)} {each.status}"
            room -= len(json.dumps(text)) + 2
            if room < 0:
                return [*found, f"{len(others) - place} more"]
            found.append(text)
        return found

    # ---- ends ----

    def _leave(self, member: _Member) -> None:
        with self._lock:
            member.leaving = True
            if self.job.role(member.number) == "worker":  # servers say so when they begin
                self._ends.setdefault(member.number)
            members = list(self._members.values())
            done = len(members) == self.job.size and all(each.leaving for each in members) and not self.losses
            self._finishing = self._finishing or done
        for other in members:
            if done:
                other.tell({"finish": True, "generation": self.job.generation})
            elif other is not member:
                other.tell({"left": member.number, "generation": self.job.generation})

    def _lose(self, member: _Member, why: str) -> None:
        told = self._explain(member.number) if self._explain is not None and why == _ENDED else None
        missed = self._missed.get(member.number) if member.leaving else None
        if member.leaving and missed is None and why == _ENDED and told in (None, described(0)):
            return  # it has said so, and nobody needs it
        place = f"process {member.pid} on {member.host}"
        text = f"{self.job.called(member.number)} ({place}) {told or why}{missed or ''}"
        with self._telling:
            with self._lock:
                if self._closed.is_set() or member.lost or self._finishing:
                    return
                member.lost = True
                self._ends.setdefault(member.number)
                alone = not self.losses and told in (None, described(0))  # no exit status says it, too
                self.losses.append(text)
                self.reasons += [text] if missed or alone else []
                others = [each for each in self._members.values() if not each.lost]
                meeting = self._meeting
            for other in others:
                other.tell({"lost": text, "number": member.number, "generation": self.job.generation})
        if meeting is not None:
            meeting.give_up()

    def _miss(self, numbers: Any, what: str) -> None:
        """A process waits for others that have ended their programs: these go, so that their statuses are known."""
        with self._lock:
            missing = [self._members[each] for each in numbers if each in self._members]
            missing = [each for each in missing if each.leaving and each.number not in self._missed]
            self._missed.update((each.number, what) for each in missing)
        for member in missing:
            member.tell({"go": True, "generation": self.job.generation})

    def _give_up(self, member: _Member, text: str) -> None:
        """A process has waited until its deadline."""
        with self._lock:
            self.reasons.append(f"{self.job.called(member.number)}: {text.removeprefix('[KVStore] ')}")

    def _refuse(self, text: str) -> None:
        """A process has found that others contradict each other: all are told."""
        with self._lock:
            self.reasons.append(text)
            members = [each for each in self._members.values() if not each.lost]
        for member in members:
            member.tell({"wrong": text, "generation": self.job.generation})

    def absent(self, number: int, why: str) -> None:
        """Hears that a process has ended in good order that never came: a loss once a worker has come, or comes."""
        with self._lock:
            self._absent[number] = why
            wanted = any(self.job.role(each) == "worker" for each in self._members)
        if wanted:
            self.report(number, why)

    def report(self, number: int, why: str) -> None:
        """Tells all others that a process is gone that never came, or ended before it said anything."""
        text = f"{self.job.called(number)} {why}"
        with self._telling:
            with self._lock:
                if self._closed.is_set() or number in self._members or self._finishing:
                    return
                self._ends.setdefault(number)
                self.losses.append(text)
                members = [each for each in self._members.values() if not each.lost]
            for member in members:
                member.tell({"lost": text, "number": number, "generation": self.job.generation})
