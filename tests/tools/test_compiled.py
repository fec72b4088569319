# SPDX-License-Identifier: Apache-2.0
"""What is compiled for tests is compiled again when what it includes has changed, and only then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from testkit.compiled import included, kept


@pytest.mark.parametrize("cached", [True, False])
def test_it_is_built_once_for_all_workers_and_fixtures_of_a_run(tmp_path: Path, cached: bool) -> None:
    source = tmp_path / "source.cc"
    source.write_text("int a;")
    cache = SimpleNamespace(mkdir=lambda name: tmp_path / "cache") if cached else None
    (tmp_path / "cache").mkdir()
    built: list[Path] = []
    found = set()
    for worker in ("gw0", "gw0", "gw1"):
        (tmp_path / worker).mkdir(exist_ok=True)
        factory = SimpleNamespace(getbasetemp=lambda worker=worker: tmp_path / worker)
        config = SimpleNamespace(cache=cache, workerinput={})
        found.add(kept(factory, config, [source], built.append))  # type: ignore[arg-type]
    assert found == set(built) and len(built) == 1
    source.write_text("int b;")
    assert kept(factory, config, [source], built.append) == built[1] != built[0]  # type: ignore[arg-type]
    alone = SimpleNamespace(cache=cache)  # one process, whose folder is that of the run
    kept(factory, alone, [source], built.append)  # type: ignore[arg-type]
    assert len(built) == (2 if cached else 3)


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
