# SPDX-License-Identifier: Apache-2.0
"""Builds the native part; everything else is in pyproject.toml."""

from glob import glob

from setuptools import setup

from mx_core.build import ParallelBuildExt, native_extension

setup(
    ext_modules=[
        native_extension("mx_kvstore._core", sorted(glob("csrc/*.cc")), include_dirs=["csrc"]),
        native_extension("mx_kvstore._asynchronous", sorted(glob("csrc/asynchronous/*.cc")), pybind11=False),
    ],
    cmdclass={"build_ext": ParallelBuildExt},
)
