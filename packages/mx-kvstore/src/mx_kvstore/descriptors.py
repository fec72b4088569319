# SPDX-License-Identifier: Apache-2.0
"""Files of other processes of this machine that need no name: a process opens another one's by its descriptor."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable


def opened(process: int, number: int, flags: int, is_it: Callable[[int], bool]) -> int:
    """The file that a process has open; the caller closes it. Threads: any.

    Parameters
    ----------
    process, number : int
        Of this machine, and the descriptor in that process.
    flags : int
        Of `os.open`; the file is closed when another program begins.
    is_it : callable
        (descriptor) -> bool. Whether it is the file that is meant: the number may be that of another one, or of a
        process of another machine.

    Returns
    -------
    int
        A descriptor of this process; -1 if the file is not there, or is another one, or may not be opened.
    """
    try:
        file = os.open(f"/proc/{process}/fd/{number}", flags | os.O_CLOEXEC)
    except OSError:
        return -1
    with contextlib.suppress(OSError):
        if is_it(file):
            return file
    os.close(file)
    return -1
