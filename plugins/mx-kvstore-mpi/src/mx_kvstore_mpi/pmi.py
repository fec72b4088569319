# SPDX-License-Identifier: Apache-2.0
"""The process-management interface by which MPICH's processes find each other: version 1 of PMI's wire protocol.

A process asks lines of `cmd=… key=value`, and the hub answers: how many there are, what the others have put, and when
all have come to a barrier. So a job needs no process manager of its own, whoever starts its processes.

Source: the PMI-1 wire protocol as MPICH's documentation describes it (cmd=init, get_maxes, put, get, barrier_in, …).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

#: longest line that is taken, in bytes
LIMIT = 1 << 16


class Meeting:
    """What the processes of one generation tell each other. Threads: any.

    Parameters
    ----------
    name : str
        Of the job; different jobs of a machine need different ones.
    hosts : sequence of int
        The number of each rank's host.
    """

    def __init__(self, name: str, hosts: Sequence[int]) -> None:
        self.name = name
        self.size = len(hosts)
        self._values = {"PMI_process_mapping": _mapping(hosts)}
        self._changed = threading.Condition()
        self._waiting = 0
        self._passed = 0
        self._given_up = False

    def give_up(self) -> None:
        """Ends the barrier: a process is lost, so it would last for ever."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def _barrier(self) -> bool:
        with self._changed:
            self._waiting += 1
            turn = self._passed
            if self._waiting == self.size:
                self._waiting, self._passed = 0, turn + 1
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._passed > turn or self._given_up)
            return self._passed > turn

    def _answer(self, words: dict[str, str]) -> str | None:
        """What to say to a command; None where nothing is to be said any more."""
        command = words.get("cmd", "")
        if command == "init":
            return "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1"
        if command == "get_maxes":
            return "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"
        if command == "get_appnum":
            return "cmd=appnum rc=0 appnum=0"
        if command == "get_my_kvsname":
            return f"cmd=my_kvsname rc=0 kvsname={self.name}"
        if command == "get_universe_size":
            return f"cmd=universe_size rc=0 size={self.size}"
        if command == "put":
            with self._changed:
                self._values[words.get("key", "")] = words.get("value", "")
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            with self._changed:
                value = self._values.get(words.get("key", ""))
            if value is None:
                return "cmd=get_result rc=-1 msg=not_found value=unknown"
            return f"cmd=get_result rc=0 msg=success value={value}"
        if command == "barrier_in":
            return "cmd=barrier_out rc=0" if self._barrier() else None
        if command == "finalize":
            return "cmd=finalize_ack rc=0"
        return f"cmd={command or 'unknown'} rc=-1 msg=not_supported"

    def serve(self, sock: socket.socket) -> None:
        """Answers one process until it has finished or gone."""
        with sock, sock.makefile("rwb") as file:
            while True:
                try:
                    line = file.readline(LIMIT)
                    if not line.endswith(b"\n"):
                        return
                    answer = self._answer(_words(line.decode("ascii", "replace")))
                    if answer is None:
                        return
                    file.write(answer.encode() + b"\n")
                    file.flush()
                except OSError:
                    return


def _words(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def _mapping(hosts: Sequence[int]) -> str:
    """Which ranks share a machine, as (first host, hosts, ranks per host) of blocks."""
    blocks: list[list[int]] = []
    for host in hosts:
        if blocks and blocks[-1][0] == host:
            blocks[-1][1] += 1
        else:
            blocks.append([host, 1])
    return "(vector," + ",".join(f"({host},1,{count})" for host, count in blocks) + ")"
