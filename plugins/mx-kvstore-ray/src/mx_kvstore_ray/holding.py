# SPDX-License-Identifier: Apache-2.0
"""Only one process at a time has the files of a server.

Ray starts a server again when the process before is lost. If that one is not dead but only out of reach, it must not
write to the same files when it goes on. The system takes the lock from a process that ends.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from mx_core.errors import MXNetError

#: seconds between two attempts
_AGAIN = 0.05


def hold(folder: Path, seconds: float) -> int:
    """Has a folder for this process alone, until the descriptor that is returned is closed. Blocks.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    seconds : float
        How long to wait for the process that has it.

    Raises
    ------
    MXNetError  it still has it
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    limit = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if time.monotonic() > limit:
                os.close(file)
                raise MXNetError(f"[KVStore server] another process has the files in {folder}") from None
            time.sleep(_AGAIN)
