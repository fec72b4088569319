# SPDX-License-Identifier: Apache-2.0
"""Compilation of an extension's sources in parallel, and only of those that changed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext

#: How many sources of `grouped` make a translation unit.
_GROUP = 8
_INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


class NativeExtension(Extension):
    """An extension with sources that may be compiled several to a translation unit."""

    def __init__(
        self,
        name: str,
        sources: list[str],
        *,
        grouped: Sequence[str] = (),
        grouped_flags: Sequence[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(name, sources, **options)
        self.grouped = list(grouped)
        self.grouped_flags = list(grouped_flags)


class ParallelBuildExt(build_ext):
    """`build_ext` that compiles the sources of an extension in parallel and only those that changed.

    An object is compiled anew when its command, its source or a header that it includes has changed; the
    compiler's dependency files say which headers those are.

    Notes
    -----
    `MX_BUILD_JOBS` is the number of compilers that run at once, by default one per core that the process
    may use. Where MAKEFLAGS names a jobserver (`--jobserver-auth=fifo:PATH`), as below GNU make 4.4, each
    compiler also takes one of its slots, so that builds of several extensions share the cores.

    Sources that `native_extension` was given as `grouped` are compiled eight to a translation unit: what pybind11
    adds to each unit costs the compiler more than the bindings do. Through ccache each is compiled alone, so
    that a change compiles one.

    Examples
    --------
    In `setup.py`: `setup(ext_modules=[native_extension(...)], cmdclass={"build_ext": ParallelBuildExt})`.
    """

    def build_extensions(self) -> None:
        """Compiles and links every extension."""
        self.compiler.compile = self._compile_all
        self.force = True  # looks at every object: the command may have changed; the linker's own check stays
        self._flags: dict[str, list[str]] = {}  # of single sources, after all others
        command = getattr(
            self.compiler, "compiler_so_cxx", self.compiler.compiler_so
        )  # the latter before setuptools 72
        for extension in self.extensions:
            if isinstance(extension, NativeExtension):
                self._flags |= dict.fromkeys(extension.grouped, extension.grouped_flags)
                if not _is_ccache(command):
                    self._group(extension)
        super().build_extensions()

    def _group(self, extension: NativeExtension) -> None:
        """Puts translation units that include the grouped sources into their place."""
        extension.sources = [source for source in extension.sources if source not in extension.grouped]
        for first in range(0, len(extension.grouped), _GROUP):
            members = extension.grouped[first : first + _GROUP]
            unit = Path(self.build_temp, "groups", f"{extension.name}_{first // _GROUP}.cc")
            text = "".join(f'#include "{os.path.abspath(source)}"\n' for source in members)
            if not unit.exists() or unit.read_text() != text:
                unit.parent.mkdir(parents=True, exist_ok=True)
                unit.write_text(text)
            extension.sources.append(str(unit))
            self._flags[str(unit)] = extension.grouped_flags

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

        def compile_one(target: str) -> None:
            source, suffix = todo[target]
            flags = [*postargs, *self._flags.get(source, ())]
            command = repr((cc_args, flags))
            if compiler.force or _is_stale(Path(target), command):
                with _slot():
                    compiler._compile(target, source, suffix, cc_args, flags, pp_opts)
                Path(f"{target}.command").write_text(command)

        own = [folder for folder in include_dirs or () if not os.path.isabs(folder)]
        longest_first = sorted(todo, key=lambda target: _size(todo[target][0], own), reverse=True)
        with ThreadPoolExecutor(_jobs()) as pool:
            for _ in pool.map(compile_one, longest_first):
                pass
        return list(objects)


def _size(source: str, folders: Sequence[str]) -> int:
    """Bytes of a source and of what it includes from its own folder and from others: what compiles longest has most."""
    waiting, seen, total = [Path(source)], set(), 0
    while waiting:
        path = waiting.pop().resolve()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        text = path.read_bytes()
        total += len(text)
        names = [os.fsdecode(name) for name in _INCLUDE.findall(text)]
        waiting += [Path(folder, name) for name in names for folder in (path.parent, *map(Path, folders))]
    return total


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
