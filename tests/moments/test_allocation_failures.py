# SPDX-License-Identifier: Apache-2.0
"""One allocation of native code fails: an error, and the same work is right afterwards.

oneDNN is left out: it does not look at what its small allocations give; see `require_headroom`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit import allocations

pytestmark = pytest.mark.long

#: how many allocations of each fail by default (nightly all of them), and the least share of them that is an error:
#: caches, tags and names do without
WORK = {
    "bind": (24, 0.9), "infer": (16, 0.9), "save": (4, 0.9), "load": (4, 0.9), "symbol": (24, 0.9),
    "record": (16, 0.9), "dots": (8, 0.9), "operations": (12, 0.4), "memory": (8, 0.4),
}  # fmt: skip


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return allocations.build(tmp_path_factory.mktemp("counter"))


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_an_allocation_that_fails_is_an_error(counter: Path, work: str, every: bool) -> None:
    few, share = WORK[work]
    most = 1_000_000 if every else few
    done = allocations.run(counter, "of_failures.py", work, str(most))
    tried = min(most, done["allocations"])
    assert done["allocations"] > 5 and sum(done["ended"].values()) == tried
    errors = done["ended"].get("MemoryError", 0) + done["ended"].get("OutOfMemoryError", 0)
    assert errors > share * (tried - done["ended"].get("not asked for", 0)), done
