# SPDX-License-Identifier: Apache-2.0
"""Memory plans: proven on random schedules, judged on known ones."""

import time
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import MXNetError
from mx_symbol import memory
from mx_symbol.memory import MemoryPlan, Placement, Step, plan_memory
from mx_symbol.memory_check import check_plan


@st.composite
def schedules(draw):
    """Random steps: each reads values that exist and writes new ones, some in place."""
    steps, sizes, external = [], [], set()
    for _ in range(draw(st.integers(1, 25))):
        known = list(range(len(sizes)))
        reads = draw(st.lists(st.sampled_from(known), max_size=4)) if known else []
        writes = []
        for _ in range(draw(st.integers(1, 3))):
            if draw(st.integers(0, 5)) == 0:
                external.add(len(sizes))
            writes.append(len(sizes))
            sizes.append(draw(st.sampled_from([0, 1, 64, 100, 256, 1000, 4096, 10_000])))
        pairs = [(i, o) for i in range(len(reads)) for o in range(len(writes))]
        inplace = draw(st.lists(st.sampled_from(pairs), max_size=4)) if pairs else []
        steps.append(Step(tuple(reads), tuple(writes), tuple(inplace)))
    return steps, sizes, frozenset(external)


@settings(max_examples=300, deadline=None)
@given(schedules(), st.booleans())
def test_no_plan_damages_a_live_value(schedule, linear):
    steps, sizes, external = schedule
    limit = memory.GREEDY_LIMIT
    try:
        memory.GREEDY_LIMIT = -1 if linear else limit
        plan = plan_memory(steps, sizes, external)
    finally:
        memory.GREEDY_LIMIT = limit
    check_plan(steps, sizes, external, plan)
    assert plan.live_bytes <= plan.total_bytes <= plan.naive_bytes
    assert set(plan.placements) == set(range(len(sizes))) - external


def chain(n, size=1000):
    return [Step((i - 1,) if i else (), (i,), ((0, 0),) if i else ()) for i in range(n)], [size] * n


def test_a_chain_in_place_needs_one_block():
    steps, sizes = chain(10)
    plan = plan_memory(steps, sizes)
    assert plan.total_bytes == 1024
    assert plan.naive_bytes == 10 * 1024
    assert len({place.storage for place in plan.placements.values()}) == 1


def test_a_chain_without_inplace_needs_two_blocks():
    steps = [Step((i - 1,) if i else (), (i,)) for i in range(10)]
    plan = plan_memory(steps, [1000] * 10)
    assert plan.total_bytes == plan.live_bytes == 2048


def test_a_value_read_later_is_not_overwritten():
    steps = [Step((), (0,)), Step((0,), (1,), ((0, 0),)), Step((0, 1), (2,), ((0, 0), (1, 0)))]
    plan = plan_memory(steps, [64, 64, 64])
    check_plan(steps, [64, 64, 64], frozenset(), plan)
    assert plan.placements[0].offset != plan.placements[1].offset
    assert plan.total_bytes == 128


def test_an_input_that_comes_twice_is_kept_unless_both_may_go():
    both = [Step((), (0,)), Step((0, 0), (1,), ((0, 0), (1, 0)))]
    one = [Step((), (0,)), Step((0, 0), (1,), ((0, 0),))]
    assert plan_memory(both, [64, 64]).total_bytes == 64
    assert plan_memory(one, [64, 64]).total_bytes == 128


def test_a_small_value_lies_in_the_gap_of_a_large_one():
    steps = [Step((), (0,)), Step((0,), (1,)), Step((1,), (2, 3)), Step((1, 2, 3), (4,))]
    plan = plan_memory(steps, [4096, 64, 1024, 1024, 64])
    assert plan.total_bytes == 4096 + 64


def test_where_both_heuristics_leave_gaps_other_orders_are_tried(monkeypatch):
    # values 0 to 4, (size, first step, last step)
    lives = [(256, 1, 3), (192, 3, 5), (64, 3, 3), (128, 4, 5), (192, 4, 5)]
    steps = [
        Step(
            tuple(v for v, (_, birth, death) in enumerate(lives) if death == time > birth),
            tuple(v for v, (_, birth, _) in enumerate(lives) if birth == time),
        )
        for time in range(6)
    ]
    sizes = [size for size, _, _ in lives]
    plan = plan_memory(steps, sizes)
    check_plan(steps, sizes, frozenset(), plan)
    assert plan.total_bytes == plan.live_bytes == 512
    monkeypatch.setattr(memory, "ROUNDS", 0)
    assert plan_memory(steps, sizes).total_bytes == 576


def test_external_values_take_no_room():
    plan = plan_memory(*chain(3), external=frozenset({0, 1, 2}))
    assert plan.placements == {}
    assert plan.total_bytes == 0


def test_the_checker_finds_an_overlap():
    steps = [Step((), (0,)), Step((), (1,)), Step((0, 1), (2,))]
    places = {v: Placement(v, v, 0, 64, v, 2) for v in range(3)}
    with pytest.raises(MXNetError, match="value 0, which is not intact"):
        check_plan(steps, [64] * 3, frozenset(), MemoryPlan(places, 64, 192, 64))


def test_the_checker_finds_an_undeclared_overwrite():
    steps = [Step((), (0,)), Step((0,), (1,))]
    places = {v: Placement(v, v, 0, 64, v, 1) for v in range(2)}
    with pytest.raises(MXNetError, match="over value 0, its input 0"):
        check_plan(steps, [64] * 2, frozenset(), MemoryPlan(places, 64, 128, 64))


def test_planning_ten_thousand_steps_is_quick():
    n = 10_000
    steps = [Step((i - 1, i // 2) if i else (), (i,), ((0, 0),) if i else ()) for i in range(n)]
    sizes = [64 * (1 + i * 7919 % 100) for i in range(n)]
    began = time.perf_counter()
    plan = plan_memory(steps, sizes)
    assert time.perf_counter() - began < 20
    assert plan.total_bytes < plan.naive_bytes


def test_a_plan_prints_who_lies_where():
    steps, sizes = chain(3)
    plan = plan_memory(steps, sizes)
    plan.names[0] = "fc1_output"
    assert "fc1_output" in str(plan)
    assert "largest live set" in str(plan)


def test_a_plan_is_drawn():
    plan = plan_memory([Step((), (0,)), Step((0,), (1,)), Step((1,), (2,))], [640, 64, 64])
    plan.names.update({0: "a<b", 1: "relu_output"})
    root = ElementTree.fromstring(plan.to_svg())
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [
        "a<b: 640 bytes at 0, steps 0 to 1",
        "relu_output: 64 bytes at 640, steps 1 to 2",
        "value 2: 64 bytes at 0, steps 2 to 2",
    ]


def test_what_ends_in_place_in_a_gradient_lies_in_its_array():
    add = (((0, 0), (1, 0)),)
    steps = [
        Step((), (0,)),
        Step((), (1,)),
        Step((0, 1), (2,), *add),
        Step((), (3,)),
        Step((2, 3), (4,), *add),
    ]
    sizes = [640] * 5
    plan = plan_memory(steps, sizes, frozenset({4}), {4: 0})
    assert [plan.placements[v].host for v in range(4)] == [4, -1, 4, -1]
    assert plan.total_bytes == 640
    check_plan(steps, sizes, frozenset({4}), plan)


def test_what_is_older_than_a_part_does_not_lie_in_its_gradients():
    steps = [Step((), (0,)), Step((0,), (1,), ((0, 0),))]
    plan = plan_memory(steps, [64, 64], frozenset({1}), {1: 1})
    assert plan.placements[0].host == -1
