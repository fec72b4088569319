# SPDX-License-Identifier: Apache-2.0
"""No run of a CPU kernel allocates: scratch memory is declared, and comes from the pool of whoever runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit import allocations


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return allocations.build(tmp_path_factory.mktemp("counter"))


@pytest.mark.long
def test_every_native_entry(counter: Path) -> None:
    done = allocations.run(counter, "of_entries.py")
    assert done["ran"] > 80
    # What a device brings to a rendezvous is read by operations of the others, which may end later than its own.
    assert set(done["found"]) <= {"sync_batch_norm", "sync_batch_norm_backward"}


#: element types; a developer's run tries the first two, continuous integration also integers, the nightly run all
TYPES = (
    "float32",
    "bfloat16",
    "int32",
    pytest.param("float64", marks=pytest.mark.slow),
    pytest.param("float16", marks=pytest.mark.slow),
)


@pytest.mark.long
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("applications", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_operator(counter: Path, dtype: str, applications: int) -> None:
    done = allocations.run(counter, "of_operators.py", dtype, "2048", str(applications))
    assert done["ran"] > 150
    assert done["found"] == {}


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_recurrent_stacks_on_a_team(counter: Path, dtype: str) -> None:
    done = allocations.run(counter, "of_teams.py", dtype)
    assert done["ran"] == 8
    assert done["found"] == {}


@pytest.mark.slow
def test_every_operator_on_a_team(counter: Path) -> None:
    """Arrays that are worth several threads."""
    done = allocations.run(counter, "of_operators.py", "float32", str(1 << 17), "1")
    assert done["ran"] > 150
    assert done["found"] == {}
