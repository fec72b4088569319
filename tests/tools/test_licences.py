# SPDX-License-Identifier: Apache-2.0
"""Licences: in every folder, in every wheel."""

from __future__ import annotations

import io
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tools.distributions import ROOT, distributions
from tools.wheels import check_licences


@pytest.mark.parametrize("name", distributions())
def test_every_distribution_has_the_licence_and_a_notice(name: str) -> None:
    folder = distributions()[name].folder
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (folder / "NOTICE").read_text().startswith(f"{name}\nCopyright The mx authors\n")


@pytest.mark.parametrize("name", distributions())
def test_what_is_installed_from_a_wheel_carries_them(name: str) -> None:
    try:
        installed = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        pytest.skip("it is not installed here")
    if (installed.read_text("direct_url.json") or "").find('"editable": true') >= 0:
        pytest.skip("it is installed in editable mode")
    names = {path.name for path in installed.files or ()}
    assert {"LICENSE", "NOTICE"} <= names
    if name == "mx-operators-cpu":
        assert {"onednn-LICENSE", "onednn-THIRD-PARTY-PROGRAMS"} <= names


def test_an_archive_without_a_notice_is_refused(tmp_path: Path) -> None:
    wheel, archive = tmp_path / "part.whl", tmp_path / "part.tar.gz"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("part.dist-info/licenses/LICENSE", "")
    with tarfile.open(archive, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("part/LICENSE"), io.BytesIO())
    for path in (wheel, archive):
        with pytest.raises(ValueError, match="has no NOTICE"):
            check_licences(path)
    with zipfile.ZipFile(wheel, "a") as file:
        file.writestr("part.dist-info/licenses/NOTICE", "")
    check_licences(wheel)


def test_commit_hooks_run_what_lint_runs() -> None:
    hooks = [line.split(":", 1)[1].strip() for line in (ROOT / ".pre-commit-config.yaml").read_text().splitlines()
             if line.strip().startswith("entry:")]  # fmt: skip
    lint = (ROOT / "noxfile.py").read_text()
    commands = [", ".join(f'"{word}"' for word in hook.split()) for hook in hooks]
    assert hooks and all(f"session.run({command})" in lint for command in commands)
    assert lint.count('session.run("ruff"') == len(hooks)
