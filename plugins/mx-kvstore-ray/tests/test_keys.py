# SPDX-License-Identifier: Apache-2.0
"""Keys that not all workers have initialised: told as soon as it is certain, with their names, and never too early."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

from mx_kvstore_ray.agreement import Keys
from mx_kvstore_ray.errors import ProtocolError
from mx_kvstore_ray.world import World

ONLY = "initialised by worker 0 and not by worker 1: key 'b'; all workers must initialise the same keys in the same"


def test_a_key_of_one_worker_is_named_at_the_first_push() -> None:
    for order in itertools.permutations(range(4)):
        keys = Keys()
        calls = [
            lambda: keys.tell(0, 0, ["'a'", "'b'"], {}),
            lambda: keys.tell(1, 0, ["'a'"], {}),
            lambda: keys.come("a", 1, "push 1 of key 'a'", 0, 2),
            lambda: keys.come("a", 1, "push 1 of key 'a'", 1, 1),
        ]
        if order.index(0) > order.index(2) or order.index(1) > order.index(3):
            continue  # a worker tells before it pushes
        with pytest.raises(ProtocolError, match=f"push 1 of key 'a': {ONLY}"):
            for each in order:
                calls[each]()


def test_a_key_that_is_added_later_is_told_before_the_other_worker_comes() -> None:
    """Worker 0 waits for a push of the new key, and worker 1 for one of the old key."""
    for first in ("tell", "come"):
        keys = Keys()
        for rank in (0, 1):
            keys.tell(rank, 0, ["'a'"], {})
            keys.come("a", 1, "push 1 of key 'a'", rank, 1)
        calls = [
            lambda keys=keys: keys.tell(0, 1, ["'b'"], {"a": 1}),
            lambda keys=keys: keys.come("a", 2, "push 2 of key 'a'", 1, 1),
        ]
        with pytest.raises(ProtocolError, match=f"push 2 of key 'a': {ONLY}"):
            for call in calls if first == "tell" else reversed(calls):
                call()


def test_keys_in_another_order_are_told_at_once() -> None:
    keys = Keys()
    keys.tell(1, 0, ["'a'", "'b'"], {})
    with pytest.raises(
        ProtocolError, match="worker 0 has initialised key 'b'; worker 1 has initialised key 'a'; all"
    ):
        keys.tell(0, 0, ["'b'", "'a'"], {})


def test_who_has_gone_or_begins_anew_is_compared_no_more() -> None:
    keys = Keys()
    keys.tell(0, 0, ["'a'", "'b'"], {})
    keys.come("a", 1, "push 1 of key 'a'", 0, 2)
    keys.forget(0)
    keys.tell(1, 0, ["'c'"], {})
    keys.come("a", 1, "push 1 of key 'a'", 1, 1)


def test_a_server_that_came_back_names_keys_by_their_number() -> None:
    keys = Keys()
    keys.come("a", 7, "push 7 of key 'a'", 0, 3)
    with pytest.raises(ProtocolError, match="by worker 0 and not by worker 1: key number 1, key number 2;"):
        keys.come("a", 7, "push 7 of key 'a'", 1, 1)


@pytest.mark.parametrize("seed", range(20))
def test_workers_that_do_the_same_are_never_refused(seed: int) -> None:
    """Whatever is on its way for how long: what a worker tells of keys overtakes its pushes."""
    moments = random.Random(seed)
    program: list[tuple[str, Any]] = []  # what each worker does
    for _ in range(40):
        known = [key for what, key in program if what == "init"]
        if not known or moments.random() < 0.3:
            program.append(("init", len(known)))
        else:
            program.append(("push", moments.choice(known)))
    keys, workers = Keys(), [iter(program) for _ in range(3)]
    counts = [{"keys": 0, "told": 0, "called": {}, "recent": {}} for _ in workers]
    under_way: list[list[tuple[int, int, int]]] = [[] for _ in workers]  # key, push, keys
    pushed: dict[tuple[int, int], set[int]] = {}

    def arrive(rank: int) -> None:
        key, n, count = under_way[rank].pop(moments.randrange(len(under_way[rank])))
        keys.come(key, n, f"push {n} of key {key}", rank, count)
        pushed.setdefault((key, n), set()).add(rank)
        if len(pushed[key, n]) == len(workers):
            keys.over(key)

    def is_held(rank: int, key: int, n: int) -> bool:
        """Whether a push of a key waits for the one before, which waits for other workers."""
        return n > 1 and len(pushed.get((key, n - 1), ())) < len(workers)

    waiting: list[Any] = [None] * len(workers)
    left = set(range(len(workers)))
    while left or any(under_way):
        rank = moments.randrange(len(workers))
        if under_way[rank] and moments.random() < 0.5:
            arrive(rank)
            continue
        step = waiting[rank] or next(workers[rank], None)
        waiting[rank] = None
        if step is None:
            left.discard(rank)
            continue
        mine: Any = counts[rank]
        what, key = step
        if what == "init":
            mine["keys"] += 1
            continue
        if is_held(rank, key, mine["called"].get(key, 0) + 1):
            waiting[rank] = step
            continue
        if mine["told"] < mine["keys"]:
            names = [str(each) for each in range(mine["told"], mine["keys"])]
            keys.tell(rank, mine["told"], names, mine["recent"])
            mine["told"], mine["recent"] = mine["keys"], {}
        mine["called"][key] = mine["recent"][key] = mine["called"].get(key, 0) + 1
        under_way[rank].append((key, mine["called"][key], mine["keys"]))
    assert len(pushed) == sum(what == "push" for what, _ in program)


def test_new_keys_are_told_with_the_pushes_since_the_last_time() -> None:
    """A trainer initialises and pulls one key after the other; another program pushes each."""
    world: Any = object.__new__(World)
    told: list[Any] = []
    world._keys, world._told, world._barriers, world._pushed = [], 0, 0, {}
    world._telling, world._counting = threading.Lock(), threading.Lock()

    def command(name: str, found: Any) -> None:
        if len(told) == 3 and not failed:
            failed.append(name)
            raise KeyboardInterrupt
        told.append(found)

    failed: list[str] = []
    world.requests = SimpleNamespace(command=command)
    for number in range(3):
        world.new_key(number)
        world.tell_keys()
    world.count_push(0, 1, 1)
    world.count_push(0, 1, 2)
    world.new_key("more")
    with pytest.raises(KeyboardInterrupt):
        world.tell_keys()
    world.count_push(0, 2, 1)
    world.tell_keys()
    world.tell_keys()
    world.count_push(0, 1, 3)
    world.new_key("last")
    world.tell_keys()
    assert [each["names"] for each in told] == [["0"], ["1"], ["2"], ["'more'"], ["'last'"]]
    assert [each["pushes"] for each in told] == [[], [], [], [(0, 1, 2), (0, 2, 1)], [(0, 1, 3)]]


def test_a_server_that_came_back_takes_no_push_for_one_that_is_still_to_come() -> None:
    """It does not know of the pushes that were told before."""
    keys = Keys()
    keys.tell(1, 0, ["'a'", "'b'"], {"a": 3})
    keys.tell(1, 2, ["'c'"], {"b": 1})
    with pytest.raises(
        ProtocolError, match="push 4 of key 'a': initialised by worker 1 and not by worker 0: key 'c'"
    ):
        keys.come("a", 4, "push 4 of key 'a'", 0, 2)
    keys.come("a", 3, "push 3 of key 'a'", 0, 2)  # those of worker 1 are on their way
    keys = Keys()
    keys.come("a", 3, "push 3 of key 'a'", 0, 2)
    keys.tell(1, 2, ["'c'"], {"b": 1})
    keys.tell(1, 3, ["'d'"], {"b": 2})
    keys.tell(1, 3, ["'d'"], {"b": 2})  # comes again
    keys.come("a", 3, "push 3 of key 'a'", 1, 2)


def test_costs_do_not_grow_with_the_keys_that_are_there() -> None:
    """Each worker initialises and pushes one key after the other; one is far behind."""

    def calls_of(count: int) -> int:
        keys, calls = Keys(), 0

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal calls
            calls += event == "line"
            return trace

        sys.settrace(trace)
        try:
            for rank in (0, 1):
                for number in range(count):
                    keys.tell(rank, number, [str(number)], {number - 1: 1} if number else {})
                    keys.come(number, 1, f"push 1 of key {number}", rank, number + 1)
                    if rank == 1:
                        keys.over(number)
        finally:
            sys.settrace(None)
        return calls

    assert calls_of(200) < 2.2 * calls_of(100)
