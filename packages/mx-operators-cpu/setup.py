# SPDX-License-Identifier: Apache-2.0
"""Builds the native part and places the libraries that it loads beside it."""

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

setup(
    ext_modules=[
        native_extension(
            "mx_operators_cpu._native",
            sorted(glob("csrc/**/*.cc", recursive=True)),
            grouped=sorted(glob("csrc/**/bindings*.cc", recursive=True)),
            grouped_flags=["-O1"],  # they are called once for each plan
            include_dirs=["csrc", str(Path(header).resolve().parent)],
            compile_flags=[
                "-fopenmp",
                "-fno-trapping-math",  # these two let loops with comparisons and square roots vectorise
                "-fno-math-errno",
                "-fwrapv",  # integers wrap around
            ],
            link_flags=["-fopenmp", f"-L{LIB}", "-l:libdnnl.so.3", "-Wl,-rpath,$ORIGIN/lib"],
        )
    ],
    cmdclass={"build_ext": ParallelBuildExt},
)
