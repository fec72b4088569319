# SPDX-License-Identifier: Apache-2.0
"""Random streams go on from a state, in the same program or another one."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError
from mx_ndarray import nd, random  # noqa: F401  DRAWS uses it

DRAWS = """
[random.uniform(shape=(3,)), random.normal(shape=(5,), ctx=cpu(2)), nd.Dropout(nd.ones(9), mode="always"), random.uniform()]
"""


def drawn() -> list[Any]:
    return [array.asnumpy().tolist() for array in eval(DRAWS)]


@pytest.mark.long
@pytest.mark.parametrize(
    "seeds", [[], [(7, "all")], [(7, "all"), (3, cpu(2))], [(3, cpu(2)), (7, "all")], [(3, cpu())]]
)
def test_the_same_numbers_follow(seeds: list[tuple[int, Any]]) -> None:
    for seed, ctx in seeds:
        random.seed(seed, ctx)
    drawn()
    state = random.get_state([cpu(2)])
    expected = [drawn(), drawn()]
    random.seed(99)
    drawn()
    random.set_state(state)
    assert [drawn(), drawn()] == expected
    code = f"""
import json, sys
from mx_core import cpu
from mx_ndarray import nd, random
random.set_state(json.loads(sys.argv[1]))
print([[array.asnumpy().tolist() for array in {DRAWS.strip()}] for _ in range(2)])
"""
    run = subprocess.run(
        [sys.executable, "-c", code, json.dumps(state)], capture_output=True, text=True, check=True
    )
    assert eval(run.stdout) == expected


def test_asking_draws_nothing() -> None:
    random.seed(1)
    expected = drawn()
    random.seed(1)
    assert random.get_state() == random.get_state()
    assert drawn() == expected


def test_contexts_that_were_not_asked_for_begin_with_the_seed() -> None:
    random.seed(5)
    state = random.get_state()
    expected = random.uniform(shape=(3,), ctx=cpu(7)).asnumpy()
    random.seed(6)
    random.set_state(state)
    assert np.array_equal(random.uniform(shape=(3,), ctx=cpu(7)).asnumpy(), expected)


@pytest.mark.parametrize(
    "state",
    [
        None, {}, {"seed": 1}, {"seed": "x", "streams": []}, {"seed": 1.5, "streams": []}, {"seed": 1, "streams": [1]},
        {"seed": 1, "streams": [["cpu", 0, None]]}, {"seed": 1, "streams": [["cpu", 0, None, "x", 2]]},
        {"seed": 1, "streams": [["cpu", 0, None, 1, -5]]}, {"seed": 1, "streams": [["cpu", 0, None, 1, 1 << 64]]},
        {"seed": 1, "streams": [["cpu", 0, "x", 1, 2]]}, {"seed": 1, "streams": [[[], 0, None, 1, 2]]},
    ],
)  # fmt: skip
def test_other_things_are_refused_and_change_nothing(state: Any) -> None:
    random.seed(8)
    before = random.get_state()
    with pytest.raises(ArgumentError, match="expected what get_state gave"):
        random.set_state(state)
    assert random.get_state() == before


def test_streams_of_another_provider_are_refused() -> None:
    state = random.get_state()
    state["streams"][0][3] += 1
    with pytest.raises(
        ArgumentError, match="the state is of a program whose streams mx_storage._core does not make"
    ):
        random.set_state(state)
