# SPDX-License-Identifier: Apache-2.0
"""Memory plans: proven on random schedules, judged on known ones."""

import time
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import MXNetError
from mx_symbol.memory import placement as memory
from mx_symbol.memory.check import check_any_order, check_plan
from mx_symbol.memory.order import Order, masks_of, reuse_edges, users_of
from mx_symbol.memory.placement import DataFlow, plan_memory
from mx_symbol.memory.plan import MemoryPlan, Placement, Step


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


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(schedules(), st.booleans())
def test_no_plan_damages_a_live_value(schedule, linear):
    steps, sizes, external = schedule
    limit = memory.GREEDY_LIMIT
    try:
        memory.GREEDY_LIMIT = 0 if linear else limit
        plan = plan_memory(steps, sizes, external)
    finally:
        memory.GREEDY_LIMIT = limit
    check_plan(steps, sizes, external, plan)
    assert plan.live_bytes <= plan.total_bytes <= plan.naive_bytes
    assert set(plan.placements) == set(range(len(sizes))) - external


def flow_of(steps, n_values, n_forward=None):
    return DataFlow(Order(steps, n_forward).before, masks_of(users_of(steps, n_values)))


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(schedules(), st.booleans(), st.booleans(), st.data())
def test_no_order_that_is_allowed_damages_a_live_value(schedule, by_flow, linear, data):
    steps, sizes, external = schedule
    n_forward = data.draw(st.none() | st.integers(0, len(steps)))
    host = data.draw(st.none() | st.sampled_from(sorted(external))) if external else None
    hosts = {} if host is None else {host: n_forward or 0}
    flow = flow_of(steps, len(sizes), n_forward) if by_flow else None
    limit = memory.GREEDY_LIMIT
    try:
        memory.GREEDY_LIMIT = 0 if linear else limit
        plan = plan_memory(steps, sizes, external, hosts, flow)
    finally:
        memory.GREEDY_LIMIT = limit
    order = Order(steps, n_forward)
    edges = reuse_edges(steps, plan, order)
    if by_flow:
        assert edges == ()  # no branch waits for memory
    assert order.before == Order(steps, n_forward, edges).before
    plan = replace(plan, edges=edges)
    check_plan(steps, sizes, external, plan)
    check_any_order(steps, sizes, external, plan, n_forward)
    for needless in edges[:3]:
        rest = tuple(edge for edge in edges if edge != needless)
        assert not Order(steps, n_forward, rest).before[needless[1]] >> needless[0] & 1


#: two branches of two steps from value 0, and a step that reads both ends
FORK = [
    Step((), (0,)),
    Step((0,), (1,)),
    Step((1,), (2,)),
    Step((0,), (3,)),
    Step((3,), (4,)),
    Step((2, 4), (5,)),
]


def test_least_memory_makes_a_branch_wait_and_most_parallel_does_not():
    sizes = [64, 1000, 64, 1000, 64, 64]
    least = plan_memory(FORK, sizes)
    assert least.placements[1].offset == least.placements[3].offset
    edges = reuse_edges(FORK, least, Order(FORK))
    assert (2, 3) in edges  # the second branch begins when the first has read value 1
    most = plan_memory(FORK, sizes, flow=flow_of(FORK, 6))
    assert reuse_edges(FORK, most, Order(FORK)) == ()
    assert (least.total_bytes, most.total_bytes) == (1024 + 2 * 64, 2 * 1024 + 3 * 64)


def test_the_checker_finds_what_only_the_schedule_keeps_apart():
    sizes = [64, 1000, 64, 1000, 64, 64]
    plan = plan_memory(FORK, sizes)
    check_plan(FORK, sizes, frozenset(), plan)
    with pytest.raises(MXNetError, match=r"values \d and \d share memory and may be alive at the same time"):
        check_any_order(FORK, sizes, frozenset(), plan)


def test_the_checker_refuses_orders_that_go_back():
    plan = replace(plan_memory(*chain(3)), edges=((2, 1),))
    with pytest.raises(MXNetError, match="step 1 waits for a later one"):
        check_any_order(*chain(3), frozenset(), plan)


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


def test_waiting_for_memory_is_drawn():
    plan = replace(plan_memory(FORK, [64, 1000, 64, 1000, 64, 64]), edges=((2, 3),))
    titles = [t.text for t in ElementTree.fromstring(plan.to_svg()).iter("{http://www.w3.org/2000/svg}title")]
    assert "step 3 waits for step 2" in titles


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


def test_a_step_may_take_over_what_it_reads_and_nobody_uses_later() -> None:
    flow = DataFlow(before=[0b00, 0b01, 0b01], users=[0b011, 0b111])
    assert flow.may_take_over(0, 1)
    assert not flow.may_take_over(0, 0), "step 1 still reads it"
    assert not flow.may_take_over(1, 1), "step 2 may run later"
