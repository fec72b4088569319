# SPDX-License-Identifier: Apache-2.0
from glob import glob

from setuptools import setup

from mx_core.build import ParallelBuildExt, native_extension

setup(
    ext_modules=[
        native_extension(
            "mx_storage._core",
            sorted(glob("csrc/*.cc")),
            compile_flags=("-pthread",),
            link_flags=("-pthread",),
        )
    ],
    cmdclass={"build_ext": ParallelBuildExt},
)
