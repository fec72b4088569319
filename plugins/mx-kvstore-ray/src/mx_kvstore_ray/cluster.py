# SPDX-License-Identifier: Apache-2.0
"""The Ray cluster of a job: started on this machine for it alone, or one that runs already.

One that is started here listens on the loopback interface only, and knows a token that its processes read from a file
of this user. It ends with the launcher, however that ends, and so do its files.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

#: Ray's settings of a cluster that is started here. The second has Ray use the loopback interface.
_OWN = {
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
}
#: removes folders when its input ends, which is when the launcher does
_REAPER = """
import shutil, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
sys.stdin.read()
for _ in range(50):
    for folder in sys.argv[1:]:
        shutil.rmtree(folder, ignore_errors=True)
    if not any(map(__import__("os").path.exists, sys.argv[1:])):
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
    """

    def __init__(self, address: str | None, job: str, servers: int, folder: str | None) -> None:
        self._temporary: list[str] = []
        self._reaper: subprocess.Popen[bytes] | None = None
        self._own = address is None
        own = ""
        if self._own:
            own = self._temporary_folder("mx-ray-", None)
            self._make_token(Path(own, "token"))
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = folder or self._temporary_folder("mx-ray-", memory)
        if self._temporary:
            self._reaper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _REAPER, *self._temporary],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        self.ray = self._connect(address, job, servers, own)
        self.address = str(self.ray.get_runtime_context().gcs_address)

    def _temporary_folder(self, prefix: str, where: str | None) -> str:
        self._temporary.append(tempfile.mkdtemp(prefix=prefix, dir=where))
        return self._temporary[-1]

    def _make_token(self, path: Path) -> None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        os.environ.update(_OWN)
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)
        os.environ.pop("RAY_AUTH_TOKEN", None)
        os.environ.pop("RAY_ADDRESS", None)

    def _connect(self, address: str | None, job: str, servers: int, own: str) -> Any:
        import ray  # after its settings

        told: dict[str, Any] = {"namespace": job, "log_to_driver": False, "configure_logging": False}
        if address is not None:
            ray.init(address=address, **told)
        else:
            ray.init(num_cpus=servers, include_dashboard=False, _temp_dir=own, **told)
        return ray

    def close(self) -> None:
        """Ends a cluster that was started here; leaves another one. Blocks."""
        self.ray.shutdown()
        if self._reaper is not None:
            assert self._reaper.stdin is not None
            self._reaper.stdin.close()
            self._reaper.wait()
        for folder in self._temporary:
            shutil.rmtree(folder, ignore_errors=True)
