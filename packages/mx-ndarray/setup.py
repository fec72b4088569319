# SPDX-License-Identifier: Apache-2.0
"""Builds the native part; everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import setup

from mx_core.build import native_extension
from mx_core.build_info import get_include

sources = sorted(str(path) for path in Path("csrc").glob("*.cc"))
headers = [*Path("csrc").glob("*.hpp"), *Path(get_include()).rglob("*.h*")]
extension = native_extension(
    "mx_ndarray._core", sources, include_dirs=["csrc"], depends=sorted(map(str, headers))
)
setup(ext_modules=[extension])
