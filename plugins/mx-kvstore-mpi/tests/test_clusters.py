# SPDX-License-Identifier: Apache-2.0
"""Rules that the simulation of large clusters must keep: bytes, times, stragglers, staleness, processors."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simpy
from clusters import machine, schedules, staleness, stragglers
from clusters.network import Link, Messages, Phase, run

SIZE = 1e6
LINK = Link(rate=1e9, latency=3e-5, overhead=2e-6)
WORK = 1e-10

Make = Callable[[int], list[Phase]]


def alone(make: Callable[..., list[Phase]]) -> Make:
    """An exchange of workers without further nodes."""
    return lambda workers: make(np.arange(workers), SIZE, LINK, WORK)


def with_servers(count: int) -> Make:
    return lambda workers: schedules.servers(
        np.arange(workers), np.arange(workers, workers + count), SIZE, LINK, WORK
    )


#: each with its number of further nodes
EXCHANGES: dict[str, tuple[Make, int]] = {
    "ring": (alone(schedules.ring), 0),
    "parts": (alone(schedules.parts), 0),
    "gathered": (alone(schedules.gathered), 0),
    "tree": (alone(schedules.tree), 0),
    "one server": (with_servers(1), 1),
    "eight servers": (with_servers(8), 8),
}


def of(name: str, workers: int, ready: Any = 0.0) -> Any:
    """Its outcome for workers that are ready at some times."""
    make, more = EXCHANGES[name]
    return run(make(workers), np.concatenate([np.broadcast_to(ready, workers), np.zeros(more)]))


@pytest.mark.parametrize("name", EXCHANGES)
@pytest.mark.parametrize("workers", [2, 3, 7, 8, 33])
def test_every_worker_hears_of_every_other_and_no_link_is_taken_twice(name: str, workers: int) -> None:
    make, more = EXCHANGES[name]
    nodes = workers + more
    knows = [1 << node for node in range(nodes)]
    for phase in make(workers):
        assert isinstance(phase, Messages)
        before = knows if phase.chained else list(knows)
        for source, target, _ in phase.rounds(np.zeros(nodes)):
            assert len(set(source.tolist())) == len(source) and len(set(target.tolist())) == len(target)
            told = [before[node] for node in source]
            for node, what in zip(target, told, strict=True):
                knows[node] |= what
    everyone = (1 << workers) - 1
    assert all(knows[worker] & everyone == everyone for worker in range(workers))


@pytest.mark.parametrize("workers", [2, 5, 64])
def test_bytes(workers: int) -> None:
    of_two_passes = 2 * (workers - 1) / workers * SIZE
    for name in ("ring", "parts"):
        np.testing.assert_allclose(of(name, workers).sent, of_two_passes, err_msg=name)
    np.testing.assert_allclose(of("gathered", workers).sent, (workers - 1) * SIZE)
    tree = of("tree", workers).sent
    assert np.isclose(tree.sum(), 2 * (workers - 1) * SIZE) and tree.max() <= 3 * SIZE * (1 + 1e-9)
    for name, count in (("one server", 1), ("eight servers", 8)):
        sent = of(name, workers).sent
        np.testing.assert_allclose(sent[:workers], SIZE)
        np.testing.assert_allclose(sent[workers:], workers * SIZE / count)


@pytest.mark.parametrize("workers", [2, 5, 64])
def test_times_of_equal_workers(workers: int) -> None:
    steps = 2 * (workers - 1)
    part = LINK.seconds(SIZE / workers) + LINK.latency
    np.testing.assert_allclose(of("ring", workers).done, steps * part + steps / 2 * WORK * SIZE / workers)
    pushes = workers * LINK.seconds(SIZE) + LINK.latency + WORK * SIZE
    answers = workers * LINK.seconds(SIZE) + LINK.latency
    assert of("one server", workers).end == pytest.approx(pushes + answers)
    shorter = of("parts", workers).end  # the same bytes without a latency per part
    assert shorter == pytest.approx(
        steps * LINK.seconds(SIZE / workers) + 2 * LINK.latency + WORK * SIZE / workers
    )


def test_more_workers_than_servers_wait_for_their_links() -> None:
    """The time of servers grows with the workers of each; that of a ring hardly does."""
    assert of("eight servers", 800).end / of("eight servers", 100).end == pytest.approx(8, rel=0.1)
    quick = Link(rate=1e9)
    ends = [run(schedules.ring(np.arange(n), SIZE, quick), np.zeros(n)).end for n in (100, 800)]
    assert ends[1] / ends[0] == pytest.approx((799 / 800) / (99 / 100))


def test_a_tree_takes_a_step_more_for_twice_as_many() -> None:
    chunks = 32
    ends = [
        run(schedules.tree(np.arange(n), SIZE, LINK, chunks=chunks), np.zeros(n)).end
        for n in (255, 511, 1023, 2047)
    ]
    steps = np.diff(ends)
    assert (steps > 0).all() and np.ptp(steps) < 0.1 * steps.mean() and steps.max() < 0.1 * ends[0]


def ring_of_processes(ready: list[float]) -> list[float]:
    """When workers of a ring have all: in each of them one process sends, and another one gets and adds."""
    env, count = simpy.Environment(), len(ready)
    boxes, done = [simpy.Store(env) for _ in ready], [0.0] * count
    turns = range(2 * (count - 1))
    have = [[env.event() for _ in turns] for _ in ready]

    def deliver(worker: int) -> Any:
        yield env.timeout(LINK.latency)
        yield boxes[worker].put(None)

    def send(worker: int) -> Any:
        yield env.timeout(ready[worker])
        for turn in turns:
            if turn:
                yield have[worker][turn - 1]
            yield env.timeout(LINK.seconds(SIZE / count))
            env.process(deliver((worker + 1) % count))

    def get(worker: int) -> Any:
        yield env.timeout(ready[worker])
        for turn in turns:
            yield boxes[worker].get()
            yield env.timeout(WORK * SIZE / count * (turn < count - 1))
            have[worker][turn].succeed()
        done[worker] = float(env.now)

    for worker in range(count):
        env.process(send(worker))
        env.process(get(worker))
    env.run()
    return done


@pytest.mark.parametrize("workers", [2, 3, 8, 21])
def test_times_of_a_ring_are_those_of_processes(workers: int) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    ready = np.random.default_rng(seed).exponential(of("ring", workers).end, workers)
    np.testing.assert_allclose(of("ring", workers, ready).done, ring_of_processes(ready.tolist()))


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_straggler_delays_all_by_its_lateness(name: str) -> None:
    """Never by more. By no less than that and what still has to come after it."""
    workers = 24
    calm = of(name, workers).end
    for late in (0.5 * calm, 2 * calm, 100 * calm):
        for who in (0, 5, workers - 1):
            ready = np.zeros(workers)
            ready[who] = late
            end = of(name, workers, ready).end
            assert late + LINK.seconds(SIZE / workers) < end <= calm + late * (1 + 1e-9)
            if name == "ring":  # what it sends first goes around twice
                assert end == pytest.approx(calm + late)
    np.testing.assert_allclose(of(name, workers, 7.0).end, 7.0 + calm)


def test_hosts_exchange_as_one_worker_each() -> None:
    hosts, per_host, inside = 8, 4, 0.01
    delegates = np.arange(hosts) * per_host
    phases = schedules.hierarchical(per_host, inside, schedules.ring(delegates, SIZE, LINK))
    found = run(phases, np.zeros(hosts * per_host))
    alone = run(schedules.ring(np.arange(hosts), SIZE, LINK), np.zeros(hosts)).end
    np.testing.assert_allclose(found.done, alone + inside)
    assert np.count_nonzero(found.sent) == hosts


def test_codes_are_worth_it_for_few_workers_only() -> None:
    """Codes of a sixteenth cannot be added on the way: what each worker gets grows with their number."""
    slow = Link(rate=1e7)

    def gain(workers: int) -> float:
        nodes, ready = np.arange(workers), np.zeros(workers)
        values = run(schedules.ring(nodes, SIZE, slow), ready).end
        return values / run(schedules.gathered(nodes, SIZE / 16, slow), ready).end

    assert gain(2) == pytest.approx(16) and gain(32) == pytest.approx(1) and gain(128) < 0.3


def drawn(workers: int, steps: int, **how: float) -> Any:
    return stragglers.Compute(0.1, **how).draw(np.random.default_rng(7), workers, steps)


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_values_are_as_old_as_the_bound_says(bound: int) -> None:
    compute = drawn(12, 30, jitter=0.2)
    compute[3] *= 4  # always slow, so that the others wait at the bound
    course = staleness.train(compute, bound, 4, SIZE, LINK)
    assert len(course.lag) == compute.size
    assert min(course.lag) == 0 and max(course.lag) == bound


def test_bound_zero_is_a_round_and_a_slow_worker_sets_the_pace_of_every_bound() -> None:
    quick = Link(rate=1e15)
    compute = drawn(10, 50, jitter=0.3)
    rounds = staleness.train(compute, 0, 4, SIZE, quick).end
    assert rounds == pytest.approx(compute.max(0).sum(), rel=1e-4)
    ends = [staleness.train(compute, bound, 4, SIZE, quick).end for bound in (0, 1, 4, 50)]
    assert ends == sorted(ends, reverse=True)
    assert ends[-1] == pytest.approx(compute.sum(1).max(), rel=1e-4)  # nobody waits
    compute[0] *= 30
    for bound in (0, 1, 4):
        assert staleness.train(compute, bound, 4, SIZE, quick).end == pytest.approx(
            compute[0].sum(), rel=1e-4
        )


def test_servers_that_do_not_wait_are_limited_by_their_links() -> None:
    workers, steps, servers = 100, 4, 5
    compute = np.full((workers, steps), 1e-6)
    end = staleness.train(compute, steps, servers, SIZE, LINK).end
    busy = steps * workers * LINK.seconds(SIZE / servers)
    assert busy <= end <= 2.2 * busy


def test_steps_wait_for_the_slowest_worker() -> None:
    compute = drawn(16, 10, slow=0.05, factor=5.0)
    phases = schedules.ring(np.arange(16), SIZE, Link(rate=1e15))
    assert stragglers.train(compute, phases) == pytest.approx(compute.max(0).mean(), rel=1e-6)
    assert 1 < (compute > 0.3).sum() < 30


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_processors_are_shared(workers: int) -> None:
    memory = machine.Memory(far=1.5e-10, near=5e-11)
    size = 40 * machine.CHUNK

    def seconds(cores: int, targets: int = 1) -> float:
        return machine.exchange(workers, size, cores, memory, targets)

    one = seconds(1)
    copied = size * memory.far  # read once, written once
    assert one >= workers * copied if workers > 1 else one == pytest.approx(copied)
    assert seconds(workers) == pytest.approx(one / workers, rel=0.1)
    assert seconds(2 * workers) == pytest.approx(seconds(workers))
    more = seconds(1, targets=2) - one
    assert more == pytest.approx(workers * size * memory.far / 2)


def test_sums_where_arrays_lie_read_and_write_every_byte_once() -> None:
    memory = machine.Memory(far=1.5e-10, near=5e-11)
    size = 40 * machine.CHUNK
    assert machine.direct(2, size, 2, memory) == pytest.approx(2 / 3 * size * memory.far)
    assert machine.direct(2, size, 4, memory, targets=2) == pytest.approx(size * memory.far)
    assert machine.direct(4, size, 2, memory) == pytest.approx(2 * machine.direct(2, size, 2, memory))
    assert all(machine.direct(n, size, 2, memory) < machine.exchange(n, size, 2, memory) for n in (2, 4, 8))


@pytest.mark.slow
def test_the_tables_of_the_documentation_are_what_the_simulation_says() -> None:
    import large_clusters

    page = (Path(__file__).parents[3] / "docs" / "architecture" / "kvstore.md").read_text().splitlines()
    for row in (*large_clusters.exchange_rows(), *large_clusters.step_rows()):
        assert row in page, row


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("where", ["inside", "among", "in_hosts_first"])
def test_two_and_four_workers_take_about_as_long_as_predicted(where: str) -> None:
    """Costs are measured in the same minute. What else the machine does then is no part of the simulation: one of three
    attempts counts, and none on a machine that has more to do than processors."""
    import bench_clusters
    from clusters.hosts import HostsError

    attempts, busy = [], os.getloadavg()[0] > len(os.sched_getaffinity(0))
    for _ in range(3):
        try:
            found = list(getattr(bench_clusters, where)())
        except HostsError as error:
            pytest.skip(f"hosts cannot be made here: {error}")
        assert found
        attempts.append({name: measured / predicted for name, predicted, measured in found})
        if all(0.6 < ratio < 1.7 for ratio in attempts[-1].values()):
            return
    if busy:
        pytest.skip(f"the machine is busy with other things: {attempts}")
    raise AssertionError(attempts)
