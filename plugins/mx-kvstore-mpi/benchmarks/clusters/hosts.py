# SPDX-License-Identifier: Apache-2.0
"""Hosts of a cluster as namespaces of one machine, each with a link to the others whose rate can be limited."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

#: an ssh that starts a process in the namespace of a host, which is the last number of its address
_SSH = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
exec ip netns exec {name}-"${{1##*.}}" unshare --uts --ipc sh -c 'hostname "$0" && exec sh -s' "$1"
"""

#: ends what a device leaves to hardware, checksums and large packets (ETHTOOL_STXCSUM): a process sees packets as sent
_PLAIN = """
import array, fcntl, socket, struct, sys
off = array.array("B", struct.pack("II", 0x17, 0))
fcntl.ioctl(socket.socket(), 0x8946, struct.pack("16sP8x", sys.argv[1].encode(), off.buffer_info()[0]))
"""

#: of what is made for the hosts of a process
_NAME = re.compile(r"mxh(\d+)(-\d+)?")


class HostsError(OSError):
    """Namespaces, or links between them, cannot be made here."""


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False)


def _must(*words: str) -> None:
    done = _run(*words)
    if done.returncode != 0:
        raise HostsError(f"{' '.join(words)}: {done.stderr.strip()}")


def _ip(*words: str) -> None:
    _must("ip", *words)


def _spaces() -> list[str]:
    return [line.split()[0] for line in _run("ip", "netns", "list").stdout.splitlines() if line.strip()]


def _links() -> list[str]:
    """Names of network devices: `3: name@peer: <flags> …`."""
    lines = _run("ip", "-o", "link").stdout.splitlines()
    return [line.split(": ")[1].partition("@")[0] for line in lines]


def _clear(name: str) -> None:
    """Removes hosts that have a name, and ends the processes on them."""
    for space in [each for each in _spaces() if each.startswith(f"{name}-")]:
        for pid in _run("ip", "netns", "pids", space).stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _run("ip", "netns", "del", space)
    for link in [each for each in _links() if each == name or each.startswith(f"{name}-")]:
        _run("ip", "link", "del", link)


def clear_left_behind() -> None:
    """Removes the hosts of processes that were killed before they could."""
    found = (_NAME.fullmatch(each) for each in (*_spaces(), *_links()))
    for pid in {each[1] for each in found if each is not None}:
        if not os.path.exists(f"/proc/{pid}"):
            _clear(f"mxh{pid}")


class Hosts:
    """Some hosts, and the links between them. Only root can make them. Use it in a `with` statement.

    What processes that were killed have left of theirs is removed first.

    Parameters
    ----------
    count : int
    folder : pathlib.Path
        Where an `ssh` is put that starts processes on them.

    Raises
    ------
    HostsError  they cannot be made here
    """

    def __init__(self, count: int, folder: Path) -> None:
        self._count = count
        self._folder = folder
        self._net = f"10.{77 + os.getpid() // 250 % 100}.{os.getpid() % 250}"
        #: of all hosts' network devices, and of what is made for them
        self.name = f"mxh{os.getpid()}"
        self._relays: list[subprocess.Popen[bytes]] = []

    @property
    def addresses(self) -> list[str]:
        """Of the hosts, from the first to the last."""
        return [f"{self._net}.{number}" for number in range(1, self._count + 1)]

    @property
    def options(self) -> list[str]:
        """Of `mx launch`, so that it uses these hosts."""
        return ["-H", ",".join(self.addresses), "--env", f"UCX_NET_DEVICES={self.name}"]

    @property
    def path(self) -> str:
        """What the launcher's variable PATH must be."""
        return f"{self._folder}:{os.environ['PATH']}"

    def __enter__(self) -> Hosts:
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._remove()

    def _make(self) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
            raise HostsError("namespaces need root, and the commands ip and unshare")
        clear_left_behind()
        self._folder.mkdir(exist_ok=True)
        ssh = self._folder / "ssh"
        ssh.write_text(_SSH.format(name=self.name))
        ssh.chmod(0o755)
        _ip("link", "add", self.name, "type", "bridge")
        _ip("addr", "add", f"{self._net}.254/24", "dev", self.name)
        _ip("link", "set", self.name, "up")
        for number, address in enumerate(self.addresses, 1):
            space, port = f"{self.name}-{number}", self._port(number)
            _ip("netns", "add", space)
            _ip("link", "add", port, "type", "veth", "peer", "name", self.name, "netns", space)
            _ip("link", "set", port, "master", self.name, "up")
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", self.name)
            _ip("-n", space, "link", "set", self.name, "up")
            _ip("-n", space, "link", "set", "lo", "up")

    def _port(self, number: int) -> str:
        """The end of a host's link that is outside of it."""
        return f"{self.name}-{number}"

    def _remove(self) -> None:
        for relay in self._relays:
            relay.kill()
            relay.wait()
        if shutil.which("ip") is not None:
            _clear(self.name)

    def cut(self, number: int) -> None:
        """Takes the link of a host down, counted from 0."""
        _ip("link", "set", self._port(number + 1), "down")

    def mend(self, number: int) -> None:
        """Takes it up again."""
        _ip("link", "set", self._port(number + 1), "up")

    def delay(self, number: int, seconds: float, loss: float = 0.0) -> None:
        """Has what a host sends and gets take so many seconds longer, counted from 0; once for a host.

        Of its packets a share of `loss` is lost, at random.

        Raises
        ------
        HostsError  the system cannot
        """
        port = self._port(number + 1)
        near, far = f"{port}a", f"{port}b"  # instead of the link, a process is between these and the host
        for place in range(1, self._count + 1):
            _ip("netns", "exec", f"{self.name}-{place}", sys.executable, "-c", _PLAIN, self.name)
        _must(sys.executable, "-c", _PLAIN, self.name)
        _ip("link", "set", port, "nomaster")
        _ip("link", "add", near, "type", "veth", "peer", "name", far)
        _ip("link", "set", far, "master", self.name, "up")
        _ip("link", "set", near, "up")
        words = [
            sys.executable,
            str(Path(__file__).with_name("delay.py")),
            port,
            near,
            f"{seconds:g}",
            f"{loss:g}",
        ]
        self._relays.append(subprocess.Popen(words))

    def sent(self, number: int) -> int:
        """Bytes that a host has sent over its link, counted from 0."""
        port = self._port(number + 1)
        return int(Path(f"/sys/class/net/{port}/statistics/rx_bytes").read_text())

    def limit(self, rate: float) -> None:
        """Limits all links, in both directions, to so many bytes per second.

        Raises
        ------
        HostsError  the system cannot
        """
        words = ["root", "tbf", "rate", f"{8 * rate:.0f}bit", "burst", "256kb", "limit", "8mb"]
        for number in range(1, self._count + 1):
            space = f"{self.name}-{number}"
            for at in (["-n", space], []):
                device = self.name if at else self._port(number)
                _must("tc", *at, "qdisc", "replace", "dev", device, *words)
