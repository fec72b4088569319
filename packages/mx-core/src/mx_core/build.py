# SPDX-License-Identifier: Apache-2.0
"""Build helpers for native plug-ins: one extension, the flags our own packages use, all cores.

Imported by `setup.py` files, so it depends on setuptools only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from setuptools import Extension

from mx_core.build_info import get_include
from mx_core.build_parallel import NativeExtension, ParallelBuildExt

__all__ = ["COMPILE_FLAGS", "LINK_FLAGS", "ParallelBuildExt", "native_extension"]

#: Flags of every native part of mx: nothing is exported but the module's init function.
COMPILE_FLAGS = ("-std=c++17", "-O3", "-g0", "-MMD", "-Wall", "-Wextra", "-fvisibility=hidden")
LINK_FLAGS = ("-Wl,-z,relro,-z,now", "-s")


def _headers(folders: Iterable[str]) -> list[str]:
    """Every header in folders and what lies in them."""
    return sorted({str(header) for folder in folders for header in Path(folder).rglob("*.h*")})


def native_extension(
    name: str,
    sources: Sequence[str],
    *,
    include_dirs: Sequence[str] = (),
    pybind11: bool = True,
    grouped: Sequence[str] = (),
    grouped_flags: Sequence[str] = (),
    compile_flags: Sequence[str] = (),
    link_flags: Sequence[str] = (),
    **options: Any,
) -> Extension:
    """A setuptools extension compiled as C++17 against the public mx headers.

    Parameters
    ----------
    name : str
        Full module name, `"acme_ops._core"`.
    sources : sequence of str
        C++ files, relative to `setup.py`.
    pybind11 : bool
        Put pybind11's headers on the include path.
    grouped : sequence of str
        Those of the sources that may be compiled several to a translation unit, which takes a third of the time
        where they include pybind11. They share one unnamed namespace, so no two may define the same name in it.
    grouped_flags : sequence of str
        For these sources, after all other flags: `["-O1"]` where nothing in them is called often. Bindings then
        compile in two thirds of the time.

    Notes
    -----
    It is built again when a source changes, or a header next to the sources, in a relative folder of
    `include_dirs` or among mx's own.

    With MX_BUILD_DEBUG=1 in the environment nothing is optimised or stripped. With
    MX_BUILD_SANITIZE=address (or another list for `-fsanitize`) the extension is instrumented; a
    Python that imports it then has to preload the sanitizer's library.
    """
    includes = [get_include(), *include_dirs]
    if pybind11:
        import pybind11 as pb

        includes.append(pb.get_include())
    sanitizers = os.environ.get("MX_BUILD_SANITIZE", "")
    debug: tuple[str, ...] = ()
    if sanitizers:
        quiet = "-Wno-maybe-uninitialized"  # instrumented code hides what is initialised
        debug = ("-O1", "-g1", "-fno-omit-frame-pointer", quiet, f"-fsanitize={sanitizers}")
        link_flags = [*link_flags, f"-fsanitize={sanitizers}"]
    elif os.environ.get("MX_BUILD_DEBUG") == "1":
        debug = ("-O0", "-g")
    own = {os.path.dirname(source) or "." for source in sources}
    own.update(folder for folder in include_dirs if not os.path.isabs(folder))
    return NativeExtension(
        name,
        list(sources),
        grouped=grouped,
        grouped_flags=() if debug else grouped_flags,
        depends=_headers([*own, get_include()]),
        include_dirs=includes,
        language="c++",
        extra_compile_args=[*COMPILE_FLAGS, *compile_flags, *debug],
        extra_link_args=[*([] if debug else LINK_FLAGS), *link_flags],
        **options,
    )
