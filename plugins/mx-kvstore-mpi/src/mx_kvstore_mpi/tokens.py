# SPDX-License-Identifier: Apache-2.0
"""The secret of a job that MXNet's launcher has started: in a file that only this user reads.

`mx launch` gives its processes a secret by a variable. MXNet's launcher knows none, so the scheduler of a job on one
machine makes one and leaves it where the other processes of the same user find it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from mx_kvstore_mpi.errors import ProtocolError


def _folder() -> Path:
    """A folder of this user that nobody else can look into.

    Raises
    ------
    ProtocolError  somebody else has made it
    """
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    folder = Path(base) / f"mx-kvstore-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ProtocolError(f"[KVStore] {folder}: expected a folder that only user {os.getuid()} can read")
    return folder


def leave(port: int, token: str) -> Path:
    """Leaves the secret of the job whose hub has got a port; the file, to be removed at its end."""
    path = _folder() / str(port)
    path.unlink(missing_ok=True)  # of a job that was killed
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token)
    return path


def find(port: int) -> str:
    """The secret of the job whose hub listens at a port; empty if there is none yet."""
    try:
        return (_folder() / str(port)).read_text().strip()
    except FileNotFoundError:
        return ""
