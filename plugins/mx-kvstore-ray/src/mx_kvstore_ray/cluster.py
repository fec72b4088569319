# SPDX-License-Identifier: Apache-2.0
"""The Ray cluster of a job: started on this machine for it alone, or one that runs already.

One that is started here listens on the loopback interface only, and knows a token that its processes read from a file
of this user. It ends with the launcher, however that ends, and so do its files.

On a machine that has too much else to do, a start of Ray fails: its node gives up when one of its helpers has not begun
within 15 s, and its launcher after 30, whatever is set. So a start that took long is tried again.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from mx_kvstore.processes import Stopped, Stops
from mx_kvstore_ray.errors import ClusterError
from mx_kvstore_ray.interrupts import Interrupts

_log = logging.getLogger("mx.kvstore")

#: how often a cluster is started, and seconds after which a failure is one of a slow machine
_STARTS, _SLOW = 3, 10.0
#: seconds that a cluster which runs has to take a connection
_ANSWER = 10.0

#: Ray's settings of a cluster that is started here. The second has Ray use the loopback interface. The third gives
#: servers as much of the processor as workers have: otherwise they wait for whatever else there is to do.
_OWN = {
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
}
#: when its input ends, which is when the launcher does: kills what is left of the job, and removes its folders
_REAPER = """
import os, shutil, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
token, *folders = sys.argv[1:]
spared = os.getpid(), os.getppid()
sys.stdin.read()
mark, own = b"RAY_AUTH_TOKEN_PATH=" + os.fsencode(token), os.path.dirname(token) + "/"
def ours(pid):  # some of Ray's write their name over their environment, and all have logs open
    with open(f"/proc/{pid}/environ", "rb") as file:
        if mark in file.read().split(bytes(1)):
            return True
    links = (os.readlink(f"/proc/{pid}/fd/{each}") for each in os.listdir(f"/proc/{pid}/fd"))
    return any(link.startswith(own) for link in links)
for _ in range(50):
    left = False
    for pid in os.listdir("/proc") if token else ():
        try:
            if pid.isdigit() and int(pid) not in spared and ours(pid):
                left = True
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    if not left and not any(map(os.path.exists, folders)):
        break
    time.sleep(0.1)
"""


class Cluster:
    """A connection of the launcher to Ray. Threads: the main one.

    Parameters
    ----------
    address : str, optional
        Of a cluster that runs; without one, one is started here.
    job : str
        Namespace of the job's servers.
    servers : int
        For how many there shall be processes.
    folder : str, optional
        Where servers keep files; by default in shared memory, until the job ends.
    stops : Stops
        That has been entered.

    Raises
    ------
    ClusterError  it does not start, or cannot be reached; nothing of it is left
    Stopped       a signal ends the start; nothing of it is left
    """

    def __init__(self, address: str | None, job: str, servers: int, folder: str | None, stops: Stops) -> None:
        self._temporary: list[str] = []
        self._reaper: subprocess.Popen[bytes] | None = None
        token = secrets.token_hex(32)  # the same for all starts: this process knows one
        for left in reversed(range(1 if address else _STARTS)):
            begun = time.monotonic()
            try:
                self.folder, own = self._prepare(folder, None if address else token)
                self.ray = Interrupts(stops).call(partial(self._connect, address, job, servers, own))
                break
            except BaseException as error:  # of any kind: Ray has none of its own for this
                taken = time.monotonic() - begun
                self._clear()
                if isinstance(error, Stopped) or not isinstance(error, Exception):
                    raise
                what = f"cannot be reached at {address}" if address else "did not start on this machine"
                text = f"Ray {what}: {type(error).__name__}: {error}"
                if not left or taken < _SLOW:
                    raise ClusterError(text) from error
                _log.warning("%s after %.0f s; it is started again", text, taken)
        self.address = str(self.ray.get_runtime_context().gcs_address)

    def _prepare(self, folder: str | None, token: str | None) -> tuple[str, str]:
        """The folders of the servers and of a cluster that is to be started, if it is: then with a token."""
        own = path = ""
        if token is not None:
            own = self._temporary_folder("mx-ray-", None)
            path = f"{own}/token"
            self._write_token(Path(path), token)
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        found = folder or self._temporary_folder("mx-ray-", memory)
        if self._temporary:
            self._reaper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _REAPER, path, *self._temporary],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        return found, own

    def _temporary_folder(self, prefix: str, where: str | None) -> str:
        self._temporary.append(tempfile.mkdtemp(prefix=prefix, dir=where))
        return self._temporary[-1]

    def _write_token(self, path: Path, token: str) -> None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token)
        os.environ.update(_OWN)
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)
        os.environ.pop("RAY_AUTH_TOKEN", None)
        os.environ.pop("RAY_ADDRESS", None)

    def _connect(self, address: str | None, job: str, servers: int, own: str) -> Any:
        import ray  # after its settings

        told: dict[str, Any] = {"namespace": job, "log_to_driver": False, "configure_logging": False}
        if address is not None:
            host, _, port = address.rpartition(":")
            with socket.create_connection((host.strip("[]"), int(port)), _ANSWER):
                pass  # Ray waits for minutes where nobody answers
            ray.init(address=address, **told)
        else:
            ray.init(num_cpus=servers, include_dashboard=False, _temp_dir=own, **told)
        return ray

    def close(self) -> None:
        """Ends a cluster that was started here; leaves another one. Blocks."""
        self.ray.shutdown()
        self._clear()

    def _clear(self) -> None:
        if self._reaper is not None:
            assert self._reaper.stdin is not None
            self._reaper.stdin.close()
            self._reaper.wait()
            self._reaper = None
        for folder in self._temporary:
            shutil.rmtree(folder, ignore_errors=True)
        self._temporary = []
