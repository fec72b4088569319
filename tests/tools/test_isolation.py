# SPDX-License-Identifier: Apache-2.0
"""What an environment for isolated tests holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.isolation import _SURPLUS


def distribution(folder: Path, name: str, *requirements: str) -> None:
    """Installs metadata only."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
    (info / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {r}" for r in requirements)]) + "\n")


def test_what_is_not_needed_is_surplus(tmp_path: Path) -> None:
    distribution(
        tmp_path, "wanted", "direct>=1", 'optional; extra == "more"', 'other; sys_platform == "none"'
    )
    distribution(tmp_path, "direct", "In_Direct")
    for name in ("in-direct", "optional", "other", "stray"):
        distribution(tmp_path, name)

    def surplus(*requirements: str) -> set[str]:
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import pip._vendor\n{_SURPLUS}"
        out = subprocess.check_output([sys.executable, "-c", code, *requirements], text=True)
        return set(out.split()) & {"wanted", "direct", "in-direct", "optional", "other", "stray"}

    assert surplus("wanted") == {"optional", "other", "stray"}
    assert surplus("wanted[more]>=1") == {"other", "stray"}
    assert surplus("direct") == {"wanted", "optional", "other", "stray"}
