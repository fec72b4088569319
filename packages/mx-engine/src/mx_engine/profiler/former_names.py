# SPDX-License-Identifier: Apache-2.0
"""Names that MXNet gave up before 1.0, for scripts that still use them."""

from __future__ import annotations

import warnings

from mx_core.errors import ArgumentError


def _warn(old: str, new: str) -> None:
    warnings.warn(f"profiler.{old} is deprecated; use profiler.{new}", DeprecationWarning, stacklevel=3)


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """`set_config(profile_symbolic=True, profile_imperative=mode == 'all', filename=filename)`.

    Raises
    ------
    ArgumentError
        `mode` is neither `symbolic` nor `all`.
    """
    from mx_engine import profiler

    _warn("profiler_set_config", "set_config")
    if mode not in ("symbolic", "all"):
        raise ArgumentError(
            f"[profiler.profiler_set_config] mode: expected 'symbolic' or 'all', got {mode!r}"
        )
    profiler.set_config(profile_symbolic=True, profile_imperative=mode == "all", filename=filename)


def profiler_set_state(state: str = "stop") -> None:
    """`set_state(state)`."""
    from mx_engine import profiler

    _warn("profiler_set_state", "set_state")
    profiler.set_state(state)


def dump_profile() -> None:
    """`dump(True)`."""
    from mx_engine import profiler

    _warn("dump_profile", "dump")
    profiler.dump(True)
