# SPDX-License-Identifier: Apache-2.0
"""Each seeded bug still applies, and those of Python are found; `nox -s seeded` tries those of C++ too."""

from __future__ import annotations

from collections import Counter

import pytest

from tools import seeded
from tools.distributions import ROOT, distributions

BUGS = seeded.bugs()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_it_applies(bug: seeded.Bug) -> None:
    mutant = bug.mutant()
    assert mutant.source != mutant.file.read_text()
    cpp = distributions()[bug.package].folder / "tests" / "cpp"
    named = {
        cpp / f"{bug.program}.cc": bug.program,
        ROOT / bug.tests.partition("::")[0]: bug.tests,
        seeded.THREADS / "programs" / f"{bug.threads}.py": bug.threads,
    }
    assert [file.exists() for file, name in named.items() if name] == [True]


def test_each_kind_has_its_share() -> None:
    def kind(bug: seeded.Bug) -> str:
        if bug.threads:
            return "race beside Python"
        return "race" if bug.sanitizer == "thread" else "engine" if bug.package == "mx-engine" else "reader"

    counts = Counter(map(kind, BUGS))
    assert counts["engine"] >= 8 and counts["reader"] >= 4 and counts["race"] >= 4
    assert counts["race beside Python"] >= 1


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.tests], ids=lambda bug: bug.name)
@pytest.mark.slow
def test_it_is_found(bug: seeded.Bug) -> None:
    assert seeded.find(bug, {})[0] == "killed"
