# SPDX-License-Identifier: Apache-2.0
"""Options of planning: how values share memory, and whether branches run in parallel."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mx_core import services
from mx_core.context import Context
from mx_core.errors import ArgumentError

MODES = ("least_memory", "most_parallel")
BRANCHES = ("auto", "always", "never")
#: the environment variables
MODE_VARIABLE, BRANCHES_VARIABLE = "MX_MEMORY_MODE", "MX_BRANCHES"


@dataclass(frozen=True)
class Planning:
    """The choices of one bound graph.

    Attributes
    ----------
    memory_mode : "least_memory": values share memory wherever the schedule separates them, and a branch may have
        to wait for another's memory; "most_parallel": only where data flow orders them, so that none waits
    branches : whether branches that do not depend on each other run side by side: "always", "never", or, "auto",
        when the estimate says that it pays
    cores : of the machine; with one, branches never run side by side
    """

    memory_mode: str = "least_memory"
    branches: str = "never"
    cores: int = 1

    @classmethod
    def parse(
        cls, memory_mode: str | None = None, branches: str | None = None, context: Context | None = None
    ) -> Planning:
        """From arguments, or else from MX_MEMORY_MODE and MX_BRANCHES, or else least memory and "auto".

        Raises
        ------
        ArgumentError  a value that is none of the choices
        """
        mode = _choice("memory_mode", memory_mode, MODES, MODE_VARIABLE)
        side = _choice("branches", branches, BRANCHES, BRANCHES_VARIABLE)
        return cls(mode, side, _workers(context))


def n_cores() -> int:
    """Cores that kernels may use: MXNET_OMP_MAX_THREADS, OMP_NUM_THREADS or what the process may run on."""
    for name in ("MXNET_OMP_MAX_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdecimal() and int(text) > 0:
            return int(text)
    return len(os.sched_getaffinity(0))


def _choice(what: str, given: str | None, choices: tuple[str, ...], variable: str) -> str:
    where = f"[bind] {what}" if given is not None else f"[{variable}]"
    value = os.environ.get(variable, "").strip() or choices[0] if given is None else given
    if value not in choices:
        raise ArgumentError(f"{where}: expected one of {', '.join(choices)}, got {value!r}")
    return value


def _workers(context: Context | None) -> int:
    """Cores that branches can share; an accelerator runs one operation after the other."""
    if context is not None and not context.device_type.startswith("cpu"):
        return 1
    engine = services.engine()
    return 1 if engine.is_naive or engine.workers < 2 else n_cores()
