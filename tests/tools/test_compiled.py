# SPDX-License-Identifier: Apache-2.0
"""What is compiled for tests is compiled again when what it includes has changed, and only then."""

from __future__ import annotations

from pathlib import Path

from testkit.compiled import included


def test_what_a_source_includes_is_found_through_others(tmp_path: Path) -> None:
    files = {
        "own/a.cc": '#include <vector>\n#include "b.hpp"\n  # include "far/c.hpp"\n#include "nowhere.hpp"\n',
        "own/b.hpp": '#include "b.hpp"\nint b; // #include "far/d.hpp"\n',
        "other/far/c.hpp": '#include "near.hpp"\n',
        "other/far/near.hpp": "",
        "other/far/d.hpp": "",
        "other/b.hpp": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = [
        str(path.relative_to(tmp_path)) for path in included(tmp_path / "own/a.cc", [tmp_path / "other"])
    ]
    assert found == ["own/a.cc", "own/b.hpp", "other/far/c.hpp", "other/far/near.hpp"]
