# SPDX-License-Identifier: Apache-2.0
"""Build helpers for native plug-ins: one extension, the flags our own packages use, all cores.

Imported by `setup.py` files, so it depends on setuptools only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext

from mx_core.build_info import get_include

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

    Notes
    -----
    It is built anew when a source changes, or a header beside the sources, in a relative folder of
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
    return Extension(
        name,
        sources=list(sources),
        depends=_headers([*own, get_include()]),
        include_dirs=includes,
        language="c++",
        extra_compile_args=[*COMPILE_FLAGS, *compile_flags, *debug],
        extra_link_args=[*([] if debug else LINK_FLAGS), *link_flags],
        **options,
    )


class ParallelBuildExt(build_ext):
    """`build_ext` that compiles the sources of an extension in parallel and only those that changed.

    An object is compiled anew when its command, its source or a header that it includes has changed; the
    compiler's dependency files say which headers those are. `MX_BUILD_JOBS` is the number of compilers
    that run at once, by default one per core that the process may use.

    Examples
    --------
    In `setup.py`: `setup(ext_modules=[native_extension(...)], cmdclass={"build_ext": ParallelBuildExt})`.
    """

    def build_extensions(self) -> None:
        """Compiles and links every extension."""
        self.compiler.compile = self._compile_all
        super().build_extensions()

    def _compile_all(
        self,
        sources: Sequence[str],
        output_dir: str | None = None,
        macros: Any = None,
        include_dirs: Any = None,
        debug: bool = False,
        extra_preargs: Any = None,
        extra_postargs: Any = None,
        depends: Any = None,
    ) -> list[str]:
        """Takes the place of the compiler's `compile`: same arguments, same result."""
        compiler = self.compiler
        macros, objects, postargs, pp_opts, todo = compiler._setup_compile(
            output_dir, macros, include_dirs, sources, depends, extra_postargs
        )
        cc_args = compiler._get_cc_args(pp_opts, debug, extra_preargs)
        command = repr((cc_args, postargs))

        def compile_one(target: str) -> None:
            source, suffix = todo[target]
            if self.force or _is_stale(Path(target), command):
                compiler._compile(target, source, suffix, cc_args, postargs, pp_opts)
                Path(f"{target}.command").write_text(command)

        largest_first = sorted(todo, key=lambda target: -os.path.getsize(todo[target][0]))
        with ThreadPoolExecutor(_jobs()) as pool:
            for _ in pool.map(compile_one, largest_first):
                pass
        return list(objects)


def _jobs() -> int:
    """How many compilers run at once."""
    wanted = os.environ.get("MX_BUILD_JOBS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) else len(os.sched_getaffinity(0))


def _is_stale(target: Path, command: str) -> bool:
    """Whether an object file has to be compiled anew."""
    recorded, depfile = Path(f"{target}.command"), target.with_suffix(".d")
    try:
        built = target.stat().st_mtime_ns
        if recorded.read_text() != command:
            return True
        prerequisites = depfile.read_text().replace("\\\n", " ").partition(":")[2].split()
        return any(os.stat(file).st_mtime_ns > built for file in prerequisites)
    except OSError:
        return True
