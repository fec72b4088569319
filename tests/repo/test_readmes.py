# SPDX-License-Identifier: Apache-2.0
"""READMEs tell the truth: examples run and print what they promise, and what is named exists."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import mx_core
from mx_core import plugins
from mx_core.cli.plugins import _summary
from mx_core.plugins import hookspecs

#: names of hooks, which have the form of names of modules
HOOKS = tuple(name for name in vars(hookspecs) if name.startswith("mx_"))
ROOT = Path(__file__).parents[2]
READMES = [ROOT / "README.md", *sorted(ROOT.glob("p*s/*/README.md"))]


def blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(), re.S)


def promised(block: str) -> list[str]:
    """Comments behind print calls: the output."""
    return [m[1].strip() for m in re.finditer(r"^print\(.*\)\s+# (.+)$", block, re.M)]


@pytest.mark.long
@pytest.mark.parametrize("path", READMES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run(path: Path, tmp_path: Path) -> None:
    found = blocks(path)
    assert found, f"{path} has no example"
    if path.parent.name == "mx-kvstore-ray" and find_spec("mx_kvstore_ray") is None:
        pytest.skip("mx-kvstore-ray is not installed; its own tests run the example")
    program = "\n".join(found)
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    for line in promised(program):
        assert line in run.stdout, f"{path} promises {line!r}, got\n{run.stdout}"


SHOWN = re.compile(r"^(\w+) +loaded +(mx-[\w-]+) +[\d.]+  (.+)$", re.M)
LISTED = [(path, *row) for path in READMES for row in SHOWN.findall(path.read_text())]


@pytest.mark.parametrize(("path", "name", "distribution", "brings"), LISTED)
def test_what_a_plugin_brings_is_what_is_shown(path: Path, name: str, distribution: str, brings: str) -> None:
    (record,) = [record for record in plugins.plugins() if record.name == name]
    assert (record.distribution, brings) == (distribution, _summary(record))


HEADER = re.compile(r"`(?:mx_core/)?(\w+\.hp?p?)`")
NAMED = [(path, header) for path in READMES for header in sorted(set(HEADER.findall(path.read_text())))]


@pytest.mark.parametrize(("path", "header"), NAMED)
def test_headers_that_are_named_exist(path: Path, header: str) -> None:
    public = Path(mx_core.get_include(), "mx_core")
    own = [file.name for file in (path.parent / "csrc").rglob("*.h*")]
    assert header in own or (public / header).exists()


def test_the_template_names_the_headers_that_it_includes() -> None:
    template = ROOT / "plugins" / "mx-example-operators"
    sources = "".join(file.read_text() for file in sorted((template / "csrc").iterdir()))
    included = set(re.findall(r'#include "mx_core/(\S+)"', sources))
    assert included == set(re.findall(r"`mx_core/(\w+\.hp?p?)`", (template / "README.md").read_text()))


OURS = {folder.name for folder in ROOT.glob("p*s/*/src/*")}
MODULES = [
    (path, name)
    for path in READMES
    for name in sorted(set(re.findall(r"`(mx_\w+(?:\.\w+)*)`", path.read_text())))
    if name.partition(".")[0] in OURS or name.startswith("mx_register")
]


@pytest.mark.parametrize(("path", "name"), MODULES)
def test_what_is_named_in_our_modules_exists(path: Path, name: str) -> None:
    assert name in HOOKS or pkgutil.resolve_name(name) is not None
