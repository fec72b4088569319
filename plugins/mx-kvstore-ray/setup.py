# SPDX-License-Identifier: Apache-2.0
from glob import glob

from setuptools import setup

from mx_core.build import ParallelBuildExt, native_extension

setup(
    ext_modules=[native_extension("mx_kvstore_ray._native", sorted(glob("csrc/*.cc")), pybind11=False)],
    cmdclass={"build_ext": ParallelBuildExt},
)
