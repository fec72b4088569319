# SPDX-License-Identifier: Apache-2.0
"""Runs generated CUDA kernels on the processor: the same source, built by g++."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import mx_operators_cuda
from mx_core import dtypes, get_include
from mx_core.kernels import TensorSpec
from mx_operators_cuda import Launch
from mx_operators_cuda.codegen import KernelSource
from mx_operators_cuda.launch import Kind
from testkit import compiled

#: what is done with an output, `mx_req` of mx_core/abi.h
NULL, WRITE, INPLACE, ADD = range(4)

HERE = Path(__file__).parents[2] / "packages" / "mx-operators-cuda" / "tests"
INCLUDE = Path(mx_operators_cuda.__file__).parent / "include"
COMPILER = shutil.which("g++")
_FLAGS = ("-std=c++17", "-O0", "-ffp-contract=off", "-fPIC", "-w")  # those of fake_nvrtc.cc
#: where kernels find what they include
INCLUDES = (HERE, INCLUDE, Path(get_include()))
#: what decides how a kernel is built
SOURCES = (Path(__file__), *compiled.included(HERE / "emulation.hpp", INCLUDES), INCLUDE)


def precompile(folder: Path) -> None:
    """Parses what every kernel includes, once; compilers that search `folder` first take it."""
    assert COMPILER is not None
    options = (*_FLAGS, *(f"-I{path}" for path in INCLUDES), "-x", "c++-header")
    header = folder / "emulation.hpp.gch"
    subprocess.run([COMPILER, *options, str(HERE / "emulation.hpp"), "-o", str(header)], check=True)


def _given(value: float) -> np.generic:
    """What `mx::Scalar` is: a number, and no place."""
    return np.array([(value, 0)], [("value", np.float64), ("place", np.uint64)])[0]  # type: ignore[no-any-return]


class Emulator:
    """Builds kernels into shared libraries and runs them."""

    def __init__(self, factory: pytest.TempPathFactory, config: pytest.Config) -> None:
        self.folder = compiled.kept(factory, config, SOURCES, precompile)
        self._built: dict[str, ctypes.CDLL] = {}

    def build(self, sources: Sequence[KernelSource]) -> None:
        """One library of several kernels; their names may be equal, their texts differ."""
        new = {s.text: s for s in sources if s.text not in self._built}
        if not new:
            return
        text = ['#include "emulation.hpp"']
        for i, source in enumerate(new.values()):
            # `extern "C"` would clash between namespaces
            body = source.text.replace('extern "C" ', "").replace("#include", "// #include")
            run = "run_with_barriers" if "__syncthreads" in body else "run"
            call = f"mx::{run}(k{i}::{source.name}, blocks, threads, arguments)"
            text += [f"namespace k{i} {{", body, "}", 'extern "C" void '
                     f"run{i}(unsigned blocks, unsigned threads, void** arguments) {{ {call}; }}",
                     f'extern "C" unsigned arity{i}() {{ return mx::arity(k{i}::{source.name}); }}']  # fmt: skip
        library = self._library("\n".join(text))
        for i, key in enumerate(new):
            library[f"run{i}"].restype = None
            self._built[key] = (library[f"run{i}"], library[f"arity{i}"]())  # type: ignore[assignment]

    def _library(self, text: str) -> ctypes.CDLL:
        made = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.so"
        if not made.exists():
            assert COMPILER is not None
            draft = made.with_suffix(f".{os.getpid()}")
            paths = (f"-I{path}" for path in (self.folder, *INCLUDES))
            command = [COMPILER, *_FLAGS, "-shared", *paths, "-x", "c++", "-", "-o", str(draft)]
            done = subprocess.run(command, input=text, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[:4000]
            draft.rename(made)
        return ctypes.CDLL(str(made))

    def launch(
        self, source: KernelSource, blocks: int, threads: int, arguments: Sequence[np.generic]
    ) -> None:
        """What `cuLaunchKernel` does, one thread after the other."""
        self.build([source])
        run, arity = self._built[source.text]  # type: ignore[misc]
        assert len(arguments) == arity, f"{len(arguments)} arguments for a kernel that takes {arity}"
        values = [np.array([a]) for a in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(v.ctypes.data for v in values))
        run(blocks, threads, pointers)

    def run(
        self,
        launch: Launch,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray | TensorSpec],
        requests: Sequence[int] | None = None,
        scalars: Sequence[float] = (),
        blocks: int = 2,
        threads: int = 3,
        scratch: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """A launch on NumPy arrays; few threads, so that each goes round the loop several times."""
        made = [
            np.zeros(y.shape, dtypes.numpy_dtype(y.dtype)) if isinstance(y, TensorSpec) else y
            for y in outputs
        ]
        requests = [WRITE] * len(made) if requests is None else requests
        values: dict[Kind, Callable[[int], np.generic]] = {
            Kind.INPUT: lambda i: np.uint64(inputs[i].ctypes.data),
            Kind.OUTPUT: lambda o: np.uint64(made[o].ctypes.data),
            Kind.REQUEST: lambda o: np.int32(requests[o]),
            Kind.SCALAR: lambda i: _given(scalars[i]),
            Kind.NUMBER: lambda bits: _given(np.uint64(bits).view(np.float64)),
            Kind.SCRATCH: lambda _: np.uint64(scratch.ctypes.data),  # type: ignore[union-attr]
            Kind.UINT32: np.uint32,
            Kind.UINT64: np.uint64,
        }
        arguments = [
            values[place[0]](place[1]) + np.uint64(place[2]) if len(place) > 2 else values[place[0]](place[1])
            for place in launch.parameters
        ]
        self.launch(launch.source, blocks, threads, arguments)
        return made
