# SPDX-License-Identifier: Apache-2.0
"""Fresh environments over the packages of this one, without some of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STANDARD_LIBRARY = Path(os.__file__).parent


def visible_folders() -> Iterator[Path]:
    """What sys.path adds to the standard library: site-packages and editable installs."""
    for entry in map(Path, dict.fromkeys(sys.path)):
        mine = entry.is_dir() and entry.resolve() not in (Path.cwd(), ROOT)
        standard = entry == STANDARD_LIBRARY or entry.name == "lib-dynload"
        if entry.is_absolute() and mine and not standard:
            yield entry


def package(entry: str) -> str:
    """Import name a file or folder of site-packages belongs to."""
    return re.split(r"[-.]", entry, maxsplit=1)[0]


class Environment:
    """A virtual environment that sees this environment's packages, but not the hidden ones.

    Distributions installed into it are its own; it has no pip, this environment's acts on it.
    """

    def __init__(self, folder: Path, hidden: set[str]) -> None:
        self.folder = folder
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        paths = []
        for i, source in enumerate(visible_folders()):
            if any(package(item.name) in hidden for item in source.iterdir()):
                paths.append(self._without(source, hidden, folder / f"packages{i}"))
            else:
                paths.append(source)
        site = next((folder / "lib").glob("python*/site-packages"))
        (site / "visible.pth").write_text("".join(f"{path}\n" for path in paths))

    @staticmethod
    def _without(source: Path, hidden: set[str], target: Path) -> Path:
        target.mkdir()
        for item in source.iterdir():
            if package(item.name) not in hidden:
                (target / item.name).symlink_to(item)
        return target

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs `python *command` without settings of mx but the given ones."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MX_", "MXNET_", "PYTHON"))}
        return subprocess.run(
            [str(self.python), *command], env=inherited | variables, cwd=self.folder,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def code(self, source: str, **variables: str) -> str:
        """Output of a piece of code that must succeed."""
        done = self.run("-c", textwrap.dedent(source), **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def mx(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The `mx` command."""
        return self.run("-m", "mx_core.cli", *arguments)

    def pip(self, *arguments: str) -> None:
        """This environment's pip, acting on that one."""
        command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
        subprocess.run(
            [*command, "--python", str(self.python), *arguments], check=True, timeout=120, cwd=self.folder
        )

    def install(self, *wheels: Path) -> None:
        """Installs wheels, nothing else."""
        self.pip("install", "--no-deps", "--no-index", *map(str, wheels))


@pytest.fixture
def environment(tmp_path: Path) -> Callable[..., Environment]:
    """`environment("mx_symbol")`: one that lacks mx_symbol; none has the example plug-in."""

    def make(*hidden: str) -> Environment:
        return Environment(tmp_path / "environment", {"mx_example_operators", *hidden})

    return make


@pytest.fixture(scope="session")
def example_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example plug-in, built from a copy of its folder."""
    folder = tmp_path_factory.mktemp("example")
    source = folder / "mx-example-operators"
    ignored = shutil.ignore_patterns("*.so", "build", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT / "plugins" / "mx-example-operators", source, ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(folder), str(source)], check=True, timeout=300)
    return next(folder.glob("*.whl"))


def write_wheel(folder: Path, name: str, source: str) -> Path:
    """A wheel with one plug-in `name`, whose module has the given source."""
    import zipfile

    module, version = f"plugin_{name}", "1.2.0"
    info = f"mx_{name}-{version}.dist-info"
    files = {
        f"{module}.py": textwrap.dedent(source),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: mx-{name.replace('_', '-')}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[mx.plugins.v1]\n{name} = {module}\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    path = folder / f"mx_{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in files.items():
            archive.writestr(place, text)
    return path


@pytest.fixture
def wheel(tmp_path: Path) -> Callable[[str, str], Path]:
    """`wheel(name, source)` writes the wheel of a plug-in."""
    return lambda name, source: write_wheel(tmp_path, name, source)
