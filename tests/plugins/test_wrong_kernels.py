# SPDX-License-Identifier: Apache-2.0
"""`mx plugins check` finds native kernels that are wrong, and says where; on one processor, too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import mx_core
from testkit import fresh
from testkit.bad_plugins import install
from testkit.wrong_kernels import SAID, SOURCE, module

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("native")
    (folder / "native.cc").write_text(SOURCE)
    command = ["g++", "-std=c++17", "-shared", "-fPIC", "-O1", "-I", mx_core.get_include()]
    subprocess.run([*command, "native.cc", "-o", "native.so"], cwd=folder, check=True, timeout=120)
    return folder / "native.so"


CHECK = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.argv = ["mx", "plugins", "check", "aaa"]
from mx_core.cli import main
main()
"""


def check(folder: Path, library: Path, kernel: str) -> subprocess.CompletedProcess[str]:
    install(folder, module(kernel))
    (folder / "native.so").symlink_to(library)
    return fresh.run(CHECK, PYTHONPATH=str(folder), MX_STRICT_PLUGINS="")


def test_a_right_kernel_passes(tmp_path: Path, library: Path) -> None:
    done = check(tmp_path, library, "right")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok      kernels 'acme_own/cpu/acme': acme_own equals the reference" in done.stdout


@pytest.mark.parametrize("kernel", SAID)
def test_a_wrong_kernel_is_found(kernel: str, tmp_path: Path, library: Path) -> None:
    done = check(tmp_path, library, kernel)
    assert done.returncode == 1 and "FAILED  kernels 'acme_own/cpu/acme'" in done.stdout, (
        done.stdout + done.stderr
    )
    for text in SAID[kernel]:
        assert text in done.stdout
