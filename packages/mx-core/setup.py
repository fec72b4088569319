# SPDX-License-Identifier: Apache-2.0
"""Builds the native helper of mx-core, with the helpers other packages use."""

import sys
from glob import glob
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).parent / "src"))  # mx_core.build of this very tree

from mx_core.build import ParallelBuildExt, native_extension

setup(
    ext_modules=[native_extension("mx_core._native", sorted(glob("csrc/*.cc")))],
    cmdclass={"build_ext": ParallelBuildExt},
)
