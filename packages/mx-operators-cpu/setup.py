# SPDX-License-Identifier: Apache-2.0
"""Builds the two native parts: the oneDNN kernels and the vectorised loops."""

import shutil
import subprocess
from glob import glob
from importlib.metadata import files
from pathlib import Path

from setuptools import setup

from mx_core.build import ParallelBuildExt, native_extension

LIB = Path("src/mx_operators_cpu/lib")  # next to the extension: found through $ORIGIN/lib
header = next(f.locate() for f in files("onednn-devel-cpu-gomp") or () if f.match("include/dnnl.h"))
gomp = subprocess.check_output(["gcc", "-print-file-name=libgomp.so.1"], text=True).strip()
placed = {LIB / "fallback" / "libgomp.so.1": gomp}
for file in files("onednn-cpu-gomp") or ():
    if file.name == "libdnnl.so.3":
        placed[LIB / file.name] = file.locate()
    elif file.match("doc/onednn/LICENSE") or file.match("doc/onednn/THIRD-PARTY-PROGRAMS"):
        placed[LIB / f"onednn-{file.name}"] = file.locate()
for target, source in placed.items():
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        if ".so" in target.name:
            subprocess.check_call(["strip", "--strip-unneeded", str(target)])

# What lets loops with comparisons and square roots vectorise.
LOOPS = ["-fno-trapping-math", "-fno-math-errno"]
ONEDNN = {
    "include_dirs": ["csrc/onednn", "csrc", "csrc/common", str(Path(header).resolve().parent)],
    "compile_flags": ["-fopenmp", *LOOPS],
    "link_flags": ["-fopenmp", f"-L{LIB}", "-l:libdnnl.so.3", "-Wl,-rpath,$ORIGIN/lib"],
}
VECTOR = {
    "include_dirs": ["csrc/vector", "csrc/common"],
    "compile_flags": [*LOOPS, "-fwrapv"],  # integers wrap around
}
PARTS = (("onednn", ("onednn", "filtering"), ONEDNN), ("vector", ("vector",), VECTOR))
setup(
    ext_modules=[
        native_extension(
            f"mx_operators_cpu._{name}", sorted(s for f in folders for s in glob(f"csrc/{f}/*.cc")), **options
        )
        for name, folders, options in PARTS
    ],
    cmdclass={"build_ext": ParallelBuildExt},
)
