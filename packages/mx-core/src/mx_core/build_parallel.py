# SPDX-License-Identifier: Apache-2.0
"""Compilation of an extension's sources in parallel, and only of those that changed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools.command.build_ext import build_ext

#: What most binding sources begin with; `mx_core/python.hpp` first, as it sets up Python's header.
_PRECOMPILED = """\
#include "mx_core/python.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
"""
_WORTH_PRECOMPILING = 6  # as many sources as have to include pybind11


class ParallelBuildExt(build_ext):
    """`build_ext` that compiles the sources of an extension in parallel and only those that changed.

    An object is compiled anew when its command, its source or a header that it includes has changed; the
    compiler's dependency files say which headers those are.

    Notes
    -----
    `MX_BUILD_JOBS` is the number of compilers that run at once, by default one per core that the process
    may use. Where MAKEFLAGS names a jobserver (`--jobserver-auth=fifo:PATH`), as below GNU make 4.4, each
    compiler also takes one of its slots, so that builds of several extensions share the cores.

    pybind11's headers are precompiled for extensions with several sources that include them, unless the
    compiler is ccache, which does better without.

    Examples
    --------
    In `setup.py`: `setup(ext_modules=[native_extension(...)], cmdclass={"build_ext": ParallelBuildExt})`.
    """

    def build_extensions(self) -> None:
        """Compiles and links every extension."""
        self.compiler.compile = self._compile_all
        self.force = True  # looks at every object: the command may have changed; the linker's own check stays
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
        bound = {source for source in sources if _includes_pybind11(source, include_dirs or ())}
        precompile = len(bound) >= _WORTH_PRECOMPILING and not _is_ccache(compiler.compiler_so_cxx)
        header = Path(objects[0]).with_name("precompiled.hpp")
        header_args = ["-include", str(header)]

        def precompile_header() -> None:
            target = header.with_name(header.name + ".gch")
            command = [*compiler.compiler_so_cxx, *pp_opts, *postargs, "-x", "c++-header", str(header)]
            if compiler.force or _is_stale(target, repr(command)):
                header.parent.mkdir(parents=True, exist_ok=True)
                header.write_text(_PRECOMPILED)
                depfile = str(target.with_suffix(".d"))
                with _slot():
                    compiler.spawn([*command, "-MF", depfile, "-o", str(target)])
                Path(f"{target}.command").write_text(repr(command))

        def compile_one(target: str, precompiled: Future[None] | None) -> None:
            source, suffix = todo[target]
            args = cc_args
            if precompiled is not None and source in bound:
                precompiled.result()
                args = [*header_args, *cc_args]
            command = repr((args, postargs))
            if compiler.force or _is_stale(Path(target), command):
                with _slot():
                    compiler._compile(target, source, suffix, args, postargs, pp_opts)
                Path(f"{target}.command").write_text(command)

        largest_first = sorted(todo, key=lambda target: -os.path.getsize(todo[target][0]))
        with ThreadPoolExecutor(_jobs()) as pool:
            precompiled = pool.submit(precompile_header) if precompile else None
            for _ in pool.map(lambda target: compile_one(target, precompiled), largest_first):
                pass
        return list(objects)


def _jobs() -> int:
    """How many compilers run at once."""
    wanted = os.environ.get("MX_BUILD_JOBS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) else len(os.sched_getaffinity(0))


@contextlib.contextmanager
def _slot() -> Iterator[None]:
    """Holds a slot of the jobserver that MAKEFLAGS names, if it names one."""
    named = re.search(r"--jobserver-auth=fifo:(\S+)", os.environ.get("MAKEFLAGS", ""))
    if named is None:
        yield
        return
    pipe = os.open(named[1], os.O_RDWR)
    try:
        token = os.read(pipe, 1)
        try:
            yield
        finally:
            os.write(pipe, token)
    finally:
        os.close(pipe)


def _is_ccache(command: Sequence[str]) -> bool:
    """Whether a compiler's command goes through ccache."""
    found = shutil.which(command[0]) or command[0]
    return "ccache" in Path(found).resolve().name


def _includes_pybind11(source: str, include_dirs: Iterable[str]) -> bool:
    """Whether a source includes pybind11, itself or through headers of its own."""
    todo = [Path(source)]
    seen = set(todo)
    for file in todo:
        for bracket, name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)', file.read_text(), re.M):
            if name.startswith("pybind11/"):
                return True
            if bracket == '"':
                beside = (folder / name for folder in (file.parent, *map(Path, include_dirs)))
                found = next((path for path in beside if path.is_file()), None)
                if found is not None and found not in seen:
                    seen.add(found)
                    todo.append(found)
    return False


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
