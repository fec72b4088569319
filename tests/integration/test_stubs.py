# SPDX-License-Identifier: Apache-2.0
"""`mx stubs`: type checkers know the operators that are installed, and what is wrong with a call."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mypy", reason="mypy is not installed")

pytestmark = pytest.mark.timeout(240)

PROGRAM = """
import mx
from mx_ndarray import nd
from mx_symbol import sym

x = mx.nd.array([[1, 2], [3, 4]])
reveal_type(nd.sum(x, axis=1))
reveal_type(mx.nd.linalg.gemm2(x, x, transpose_a=True))
reveal_type(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc"))
reveal_type(nd.concatenate([x, x]))
nd.Activation(x, act_type="rellu")
nd.summ(x)
nd.sum(x, axes=1)
nd.sum("x")
sym.Convolution(sym.Variable("x"), kernel="large", num_filter=1)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that sees what this one sees, with stubs beside."""
    home = tmp_path_factory.mktemp("env")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    answer = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(answer, capture_output=True, text=True, check=True, timeout=60).stdout.strip())
    own = Path(sysconfig.get_path("purelib"))
    places = {str(own)} | {
        entry for entry in sys.path if Path(entry, "mx_core").is_dir() or Path(entry, "mx").is_dir()
    }
    places |= {
        line for file in own.glob("*.pth") for line in file.read_text().split("\n") if line.startswith("/")
    }
    (site / "seen.pth").write_text("\n".join(sorted(places)) + "\n")
    command = [sys.executable, "-m", "mx_core.cli", "stubs", str(site)]
    written = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert str(site / "mx_ndarray-stubs" / "nd" / "__init__.pyi") in written
    return python


def checked(python: Path, folder: Path) -> dict[int, str]:
    """Line of the program -> what mypy says of it."""
    (folder / "program.py").write_text(PROGRAM)
    environment: dict[str, Any] = {k: v for k, v in os.environ.items() if k not in ("MYPYPATH", "PYTHONPATH")}
    command = [sys.executable, "-m", "mypy", "--python-executable", str(python), "program.py"]
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=200, env=environment, check=False
    )
    said: dict[int, str] = {}
    for line in run.stdout.split("\n"):
        if line.startswith("program.py:"):
            _, number, words = line.split(":", 2)
            said[int(number)] = said.get(int(number), "") + words
    return said


ARRAY, SYMBOL = "mx_ndarray.ndarray.NDArray", "mx_symbol.symbol.symbol.Symbol"


#: line of the program -> what mypy says, among other things
SAID = {
    7: f'Revealed type is "{ARRAY}"',
    8: f'Revealed type is "{ARRAY}"',
    9: f'Revealed type is "{SYMBOL}"',
    10: f'Revealed type is "{ARRAY}"',
    11: "expected \"Literal['relu', 'sigmoid', 'softrelu', 'softsign', 'tanh']\"",
    12: 'Module has no attribute "summ"; maybe "sum',
    13: 'Unexpected keyword argument "axes" for "sum"',
    14: 'has incompatible type "str"; expected "NDArray | None"',
    15: 'has incompatible type "str"; expected "Sequence[int] | int"',
}


@pytest.mark.long
def test_mypy_knows_operators(python: Path, tmp_path: Path) -> None:
    said = checked(python, tmp_path)
    other = {line: said.get(line) for line, words in SAID.items() if words not in said.get(line, "")}
    assert other == {}


def test_the_stubs_themselves_are_right(python: Path) -> None:
    found = python.parents[1].glob("lib/*/site-packages/mx_*-stubs")
    for folder in sorted(found):
        for path in folder.rglob("*.pyi"):
            compile(path.read_text(), str(path), "exec")
