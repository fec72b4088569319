# SPDX-License-Identifier: Apache-2.0
"""What a native plug-in's setup.py gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from mx_core.build_info import get_include

pytest.importorskip("setuptools")


def test_an_extension_is_built_anew_when_a_header_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mx_core.build import native_extension

    monkeypatch.chdir(tmp_path)
    for name in ("csrc/part/kernel.cc", "csrc/part/kernel.h", "csrc/common/numbers.hpp", "elsewhere/other.h"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    foreign = tmp_path / "elsewhere"
    made = native_extension(
        "acme._core", ["csrc/part/kernel.cc"], include_dirs=["csrc/common", str(foreign)], pybind11=False
    )
    headers = {Path(header) for header in made.depends}
    assert {Path("csrc/part/kernel.h"), Path("csrc/common/numbers.hpp")} <= headers
    assert Path(get_include()) / "mx_core" / "kernel.h" in headers
    assert foreign / "other.h" not in headers


def test_what_is_built_to_be_looked_into_keeps_its_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    from mx_core.build import LINK_FLAGS, native_extension

    def link_arguments() -> list[str]:
        return list(native_extension("acme._core", [], pybind11=False, link_flags=["-lacme"]).extra_link_args)

    monkeypatch.delenv("MX_BUILD_SANITIZE", raising=False)
    monkeypatch.delenv("MX_BUILD_DEBUG", raising=False)
    assert link_arguments() == [*LINK_FLAGS, "-lacme"]
    monkeypatch.setenv("MX_BUILD_DEBUG", "1")
    assert link_arguments() == ["-lacme"]
    monkeypatch.setenv("MX_BUILD_SANITIZE", "thread")
    assert link_arguments() == ["-lacme", "-fsanitize=thread"]
