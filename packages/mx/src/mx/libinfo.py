# SPDX-License-Identifier: Apache-2.0
"""`mx.libinfo`: where the compiled parts and the C headers are."""

from __future__ import annotations

import sys as _sys
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

from mx import __version__ as __version__
from mx.absent import explain as _explain
from mx_core.errors import MissingFileError

__all__ = ["find_conf_path", "find_include_path", "find_lib_path"]


def find_lib_path(prefix: str = "") -> list[str]:
    """The compiled parts of the installed packages of mx; there is no single library as in MXNet.

    Parameters
    ----------
    prefix : str
        Only those whose file names begin so. MXNet's `"libmxnet"` means all of them.

    Returns
    -------
    list of str
    """
    wanted = "" if prefix == "libmxnet" else prefix
    found: set[Path] = set()
    for name in sorted(metadata.packages_distributions()):
        spec = find_spec(name) if name.startswith("mx_") else None
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for suffix in EXTENSION_SUFFIXES:
                found.update(Path(folder).rglob(f"{wanted}*{suffix}"))
    return sorted(map(str, found))


def find_include_path() -> str:
    """The folder of the C headers: of the tables through which engine, storage and kernels are reached."""
    import mx_core

    return mx_core.get_include()


def find_conf_path(prefix: str = "tvmop") -> str:
    """Raises MissingFileError: there are no operators that TVM made, as in MXNet's own packages."""
    raise MissingFileError(
        f"[libinfo.find_conf_path] no {prefix}.conf is here: operators made by TVM are not"
    )


_explain(_sys.modules[__name__], [__name__])
