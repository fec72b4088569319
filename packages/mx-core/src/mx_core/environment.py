# SPDX-License-Identifier: Apache-2.0
"""Names of the environment variables that mx reads; `mx doctor` compares those that are set with them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

from mx_core.errors import SettingError

#: Variables that mx-core reads, and MXNet's own names whichever installed part reads them. Plug-ins
#: state theirs in PluginInfo.
VARIABLES: Mapping[str, str] = {
    "MX_BUILD_DEBUG": "1: native parts are built without optimisation, with debug information",
    "MX_BUILD_JOBS": "how many compilers run at once when native parts are built; by default one per core",
    "MX_BUILD_SANITIZE": "sanitizers that native parts are built with, e.g. address",
    "MX_DISABLE_PLUGINS": "plug-ins or distributions not to load, comma-separated",
    "MX_ENGINE_TYPE": "name of the engine to use",
    "MX_ERRORS": "sticky: a failure is raised by every wait, not by the first alone",
    "MX_KVSTORE_ENGINE": "which plug-in's store `kvstore.create` makes, where several have one of that name",
    "MX_STRICT_PLUGINS": "1: a plug-in that does not load is an error instead of a warning",
    "MXNET_CPU_PRIORITY_NTHREADS": "engine threads for prioritised work",
    "MXNET_CPU_WORKER_NTHREADS": "engine threads that compute, per CPU device",
    "MXNET_ENGINE_TYPE": "the same as MX_ENGINE_TYPE, which comes first",
    "MXNET_GPU_COPY_NTHREADS": "engine threads that copy, per GPU",
    "MXNET_HOME": "folder of `datasets` and `models` that MXNet has fetched; by default ~/.mxnet",
    "MXNET_MP_WORKER_NTHREADS": "threads that prepare batches",
    "MXNET_UPDATE_ON_KVSTORE": "0: stores sum gradients, and Module and Trainer run the optimizer",
}

_SWITCHES = {"0": False, "off": False, "1": True, "on": True}
#: what variables begin with that benchmarks read: where to find what they compare with
_OF_BENCHMARKS = "MX_BENCH_"


def settings() -> dict[str, str]:
    """Variables of mx that are set."""
    return {k: v for k, v in sorted(os.environ.items()) if k.startswith(("MX_", "MXNET_"))}


def switch(name: str, default: bool) -> bool:
    """A variable that is on or off, as 1 or 0; these words do, too.

    Raises
    ------
    SettingError  it is something else
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if text.lower() not in _SWITCHES:
        raise SettingError(f"[{name}] expected 0 or 1, got {text!r}")
    return _SWITCHES[text.lower()]


def strict_plugins() -> bool:
    """Whether MX_STRICT_PLUGINS makes a plug-in that does not work an error; raises as `switch`."""
    return switch("MX_STRICT_PLUGINS", False)


def unknown(known: Mapping[str, str]) -> dict[str, str]:
    """Set variables that nothing reads -> the closest known name, or an empty string."""
    found = {}
    for name in settings():
        if name not in known and not name.startswith(_OF_BENCHMARKS):
            found[name] = next(iter(difflib.get_close_matches(name, known, 1)), "")
    return found
