# SPDX-License-Identifier: Apache-2.0
"""A sub-interpreter is refused before a native part is loaded in it, which would hang."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import _xxsubinterpreters as interpreters
code = "try:\\n    import mx_storage\\nexcept ImportError as error:\\n    print(error, flush=True)"
interpreters.run_string(interpreters.create(), code)
"""


def test_a_sub_interpreter_is_refused() -> None:
    pytest.importorskip("_xxsubinterpreters")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=False
    )
    assert "mx cannot be imported in a sub-interpreter" in done.stdout, done.stderr
