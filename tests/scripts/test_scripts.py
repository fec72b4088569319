# SPDX-License-Identifier: Apache-2.0
"""Scripts in the style of MXNet's years run as they are under the name `mxnet`, and print what they print there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
PRINTED: dict[str, list[str]] = json.loads(
    (Path(__file__).parents[1] / "oracle" / "scripts" / "printed.json").read_text()
)
#: those of the default run; the others train or read files for seconds
QUICK = ("autograd_function", "custom_metric", "module_fit", "print_summary", "schedulers")
NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


def test_every_script_is_recorded() -> None:
    assert set(PRINTED) == {path.stem for path in PROGRAMS.glob("*.py")}
    assert len(PRINTED) >= 20


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PRINTED]
)
def test_a_script_prints_what_it_prints_in_mxnet(name: str, tmp_path: Path) -> None:
    text = (PROGRAMS / f"{name}.py").read_text()
    assert "import mxnet as mx\n" in text and "import mx\n" not in text
    run = subprocess.run(
        [sys.executable, str(PROGRAMS / f"{name}.py")],
        cwd=tmp_path, capture_output=True, text=True, timeout=200, env={**os.environ, "PYTHONWARNINGS": "default"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = run.stdout.splitlines()
    assert [NUMBER.sub("#", line) for line in found] == [NUMBER.sub("#", line) for line in PRINTED[name]]
    for line, expected in zip(found, PRINTED[name], strict=True):
        numbers, wanted = ([float(word) for word in NUMBER.findall(text)] for text in (line, expected))
        assert numbers == pytest.approx(wanted, rel=1e-3, abs=2e-5), f"{line!r}, in MXNet {expected!r}"
