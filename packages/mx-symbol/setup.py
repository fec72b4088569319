# SPDX-License-Identifier: Apache-2.0
"""Builds the native part; everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import setup

from mx_core.build import ParallelBuildExt, native_extension

sources = sorted(str(path) for path in Path("csrc").glob("*.cc"))
setup(
    ext_modules=[native_extension("mx_symbol._core", sources, include_dirs=["csrc"])],
    cmdclass={"build_ext": ParallelBuildExt},
)
