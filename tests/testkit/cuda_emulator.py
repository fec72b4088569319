# SPDX-License-Identifier: Apache-2.0
"""Runs generated CUDA kernels on the processor: the same source, built by g++."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mx_core import dtypes, get_include
from mx_core.kernels import TensorSpec
from mx_operators_cuda import Launch
from mx_operators_cuda.codegen import KernelSource
from mx_operators_cuda.launch import Kind

#: what is done with an output, `mx_req` of mx_core/abi.h
NULL, WRITE, INPLACE, ADD = range(4)

HERE = Path(__file__).parents[2] / "packages" / "mx-operators-cuda" / "tests"
COMPILER = shutil.which("g++")
_FLAGS = (
    "-std=c++17",
    "-O0",
    "-ffp-contract=off",
    "-shared",
    "-fPIC",
    "-w",
    f"-I{HERE}",
    f"-I{get_include()}",
)


class Emulator:
    """Builds kernels into shared libraries in a folder and runs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._built: dict[str, ctypes.CDLL] = {}

    def build(self, sources: Sequence[KernelSource]) -> None:
        """One library of several kernels; their names may be equal, their texts differ."""
        new = {s.text: s for s in sources if s.text not in self._built}
        if not new:
            return
        base = self.folder / f"kernels{len(self._built)}"
        import mx_operators_cuda

        include = Path(mx_operators_cuda.__file__).parent / "include"
        text = ['#include "emulation.hpp"']
        for i, source in enumerate(new.values()):
            # `extern "C"` would clash between namespaces
            body = source.text.replace('extern "C" ', "").replace("#include", "// #include")
            run = "run_with_barriers" if "__syncthreads" in body else "run"
            call = f"mx::{run}(k{i}::{source.name}, blocks, threads, arguments)"
            text += [f"namespace k{i} {{", body, "}", 'extern "C" void '
                     f"run{i}(unsigned blocks, unsigned threads, void** arguments) {{ {call}; }}",
                     f'extern "C" unsigned arity{i}() {{ return mx::arity(k{i}::{source.name}); }}']  # fmt: skip
        base.with_suffix(".cc").write_text("\n".join(text))
        assert COMPILER is not None
        command = [COMPILER, *_FLAGS, f"-I{include}", str(base.with_suffix(".cc")), "-o", str(base) + ".so"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]
        library = ctypes.CDLL(str(base) + ".so")
        for i, key in enumerate(new):
            library[f"run{i}"].restype = None
            self._built[key] = (library[f"run{i}"], library[f"arity{i}"]())  # type: ignore[assignment]

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
            Kind.SCALAR: lambda i: np.float64(scalars[i]),
            Kind.SCRATCH: lambda _: np.uint64(scratch.ctypes.data),  # type: ignore[union-attr]
            Kind.UINT32: np.uint32,
            Kind.UINT64: np.uint64,
        }
        arguments = [values[kind](number) for kind, number in launch.parameters]
        self.launch(launch.source, blocks, threads, arguments)
        return made
