# SPDX-License-Identifier: Apache-2.0
"""Guides tell the truth: their Python runs, what they quote stands in the file they name."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from testkit import cuda_emulator, fake_machine

ROOT = Path(__file__).parents[2]
#: what these pages show is run by their packages' tests
ELSEWHERE = {"engine"}
#: what runs on a machine with GPUs, in the tests on a stand-in
ON_GPU = {"use_a_gpu"}
GUIDES = sorted(
    path
    for folder in ("guides", "architecture")
    for path in (ROOT / "docs" / folder).glob("*.md")
    if path.stem not in ELSEWHERE
)
BLOCK = re.compile(
    r"^(?:<!-- from (?P<source>\S+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.S | re.M
)


def script(path: Path) -> str:
    """The Python of a guide that is not quoted from a file."""
    blocks = BLOCK.finditer(path.read_text())
    return "\n".join(b["text"] for b in blocks if b["language"] == "python" and not b["source"])


def quoting(path: Path) -> bool:
    return any(block["source"] for block in BLOCK.finditer(path.read_text()))


@pytest.mark.parametrize("path", [g for g in GUIDES if quoting(g)], ids=lambda p: p.stem)
def test_quotations_are_true(path: Path) -> None:
    for block in BLOCK.finditer(path.read_text()):
        if block["source"]:
            quoted, file = textwrap.dedent(block["text"]), (ROOT / block["source"]).read_text()
            found = any(textwrap.indent(quoted, " " * depth) in file for depth in range(0, 20, 2))
            assert found, f"{path.name}: not in {block['source']}:\n{block['text']}"


def promised(code: str) -> list[str]:
    """What a program's comments say that it prints."""
    return re.findall(r"^\s*print\(.*\)  # (.+)$", code, re.M)


@pytest.mark.long
@pytest.mark.parametrize(
    "path", [g for g in GUIDES if script(g) and g.stem not in ON_GPU], ids=lambda p: p.stem
)
def test_python_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    code = script(path)
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == promised(code)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="there is no g++, which builds the kernels")
@pytest.mark.parametrize("path", [g for g in GUIDES if g.stem in ON_GPU], ids=lambda p: p.stem)
def test_python_runs_on_a_machine_with_gpus(
    path: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> None:
    pytest.importorskip("mx_operators_cuda", reason="mx-operators-cuda is not installed")
    code = script(path)
    machine = fake_machine.Machine(tmp_path_factory, pytestconfig)
    assert machine.run(code, timeout=280).splitlines() == promised(code)
