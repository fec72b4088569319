# SPDX-License-Identifier: Apache-2.0
"""Programs that may not end, or leave others behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run(
    command: Sequence[str], limit: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> tuple[int | None, str]:
    """Runs a program in a group of its own, and kills the group afterwards.

    Parameters
    ----------
    limit : float
        Seconds.

    Returns
    -------
    code : int or None
        Exit status; None when the time ran out.
    output : str
        Standard output and error, empty when the time ran out.
    """
    with subprocess.Popen(
        command, cwd=cwd, env=env, text=True, errors="replace", stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    ) as started:  # fmt: skip
        try:
            output, _ = started.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
    return started.returncode, output
