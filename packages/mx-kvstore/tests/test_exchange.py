# SPDX-License-Identifier: Apache-2.0
"""Workers that share memory or have connections: here each is a thread of one process, with a window of its own over
the same file, or links of its own.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from mx_core import dtypes
from mx_core.errors import ArgumentError, DTypeError, MXNetError
from mx_kvstore.compression import Compression
from mx_kvstore.exchange import CODES, FIRST, SUM, Exchange, Links, Window, push
from mx_ndarray import nd

Make = Callable[[int], "list[Worker]"]


class Worker:
    def __init__(self, transport: Window | Links, rank: int) -> None:
        self.rank = rank
        self.transport = transport
        self.exchange = Exchange(lambda: MXNetError("[test] a worker is lost"))
        self.found: list[Any] = []
        self.ended = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self.ended:
            found = self.exchange.run(self.transport, 0.05)
            if found.what not in ("idle", "waits", "apart") or found.differs or found.step:
                self.found.append(found)
            if found.what == "failed" or found.differs:
                return
            if found.step:
                self.exchange.set_step(0)

    def push(
        self,
        kind: int,
        key: int,
        reads: tuple[Any, ...],
        writes: tuple[Any, ...],
        priority: int = 0,
        **more: Any,
    ) -> None:
        push(self.exchange, kind, key, f"push of {key}", 7 + kind, priority, reads, writes, **more)

    def fail(self) -> None:
        self.transport.stop()
        self.exchange.fail()


def windows(workers: int) -> list[Window]:
    file = os.memfd_create("test")
    os.ftruncate(file, Window.bytes(workers))
    found = [Window(file, rank, workers) for rank in range(workers)]
    os.close(file)
    return found


def links(workers: int) -> list[Links]:
    ends = [[(-1, -1)] * workers for _ in range(workers)]
    for rank in range(workers):
        for other in range(rank):
            pairs = [socket.socketpair() for _ in ("terms", "sums")]
            ends[rank][other], ends[other][rank] = zip(
                *((a.detach(), b.detach()) for a, b in pairs), strict=True
            )
    return [Links(mine, rank) for rank, mine in enumerate(ends)]


ALONE = (windows, links)


@pytest.fixture(params=ALONE)
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[Worker] = []

    def begin(workers: int) -> list[Worker]:
        found = [Worker(transport, rank) for rank, transport in enumerate(request.param(workers))]
        made.extend(found)
        for worker in found:
            worker.thread.start()
        return found

    yield begin
    for worker in made:
        worker.ended = True
        worker.fail()
    for worker in made:
        worker.thread.join(10.0)
        assert not worker.thread.is_alive()


def summed(terms: list[Any]) -> Any:
    """In the order of ranks; 16-bit floats in float32, rounded once."""
    kind = terms[0].dtype
    if kind == np.bool_:
        return np.logical_or.reduce(terms)
    wide = np.float32 if kind.itemsize == 2 and kind.kind not in "iu" else kind
    total = terms[0].astype(wide)
    for term in terms[1:]:
        total = total + term.astype(wide)
    return total.astype(kind)


TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool")


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_sums_have_the_bits_of_sums_in_the_order_of_ranks(make: Make, workers: int) -> None:
    random = np.random.default_rng(workers)
    sizes = [0, 1, 3, 16, 1000, 70_000, 131_072, 200_001]
    joined = make(workers)
    keys = [[worker.exchange.new_key() for _ in range(40)] for worker in joined]
    for turn in range(3):
        expected, outs = [], []
        for key in range(40):
            dtype = TYPES[random.integers(len(TYPES))]
            size = int(sizes[random.integers(len(sizes))]) // (1 if turn == 0 else 2)
            values = [random.standard_normal(size) * 50 for _ in joined]
            sent = [nd.array(value, dtype=dtype) for value in values]
            expected.append(
                summed([array.asnumpy().astype(dtypes.numpy_dtype(array._dtype_code)) for array in sent])
            )
            how = random.integers(3)  # into another array, in place, into two
            for worker, array in zip(joined, sent, strict=True):
                to = [array] if how == 1 else [nd.zeros((size,), dtype=dtype) for _ in range(1 + how // 2)]
                outs.append((key, to, array))
                priority = int(random.integers(3)) if worker.rank == 0 else 0
                worker.push(SUM, keys[worker.rank][key], (array,), tuple(to), priority)
        for key, to, _ in outs:
            for out in to:
                assert out.asnumpy().tobytes() == expected[key].astype(out.dtype).tobytes(), (turn, key)


def test_large_values_are_exact_and_written_past_the_caches(make: Make) -> None:
    joined = make(2)
    random = np.random.default_rng(3)
    values = [random.integers(-1000, 1000, 3_000_017).astype(np.float32) for _ in joined]
    outs = [nd.zeros((3_000_017,)) for _ in joined]
    for worker, value, out in zip(joined, values, outs, strict=True):
        worker.push(SUM, worker.exchange.new_key(), (nd.array(value),), (out,))
    for out in outs:
        assert (out.asnumpy() == values[0] + values[1]).all()


def test_views_that_overlap_get_the_sum(make: Make) -> None:
    joined = make(2)
    bases = [nd.array(np.arange(300, dtype=np.float32)) for _ in joined]
    stored = [nd.zeros((200,)) for _ in joined]
    for worker, base, to in zip(joined, bases, stored, strict=True):
        worker.push(SUM, worker.exchange.new_key(), (base[100:300],), (to, base[50:250]))
    expected = 2 * np.arange(100, 300, dtype=np.float32)
    for base, to in zip(bases, stored, strict=True):
        assert (to.asnumpy() == expected).all() and (base.asnumpy()[50:250] == expected).all()


def test_first_values_are_those_of_worker_0(make: Make) -> None:
    joined = make(3)
    values = [nd.full((size,), worker.rank + 1) for size in (0, 5, 400_000) for worker in joined]
    for place, value in enumerate(values):
        worker = joined[place % 3]
        worker.push(FIRST, worker.exchange.new_key(), (), (value,))
    for value in values:
        assert (value.asnumpy() == 1).all()


@pytest.mark.parametrize("kind", ["1bit", "2bit"])
@pytest.mark.parametrize("workers", [1, 3])
def test_codes_are_summed_as_compression_has_it(make: Make, kind: str, workers: int) -> None:
    joined, how, size = make(workers), Compression(kind, 0.5), 150_003
    random = np.random.default_rng(5)
    residuals = [nd.zeros((size,)) for _ in joined]
    kept = [np.zeros(size, np.float32) for _ in joined]
    keys = [worker.exchange.new_key() for worker in joined]
    for _ in range(2):
        gradients = [random.standard_normal(size).astype(np.float32) for _ in joined]
        outs = [(nd.zeros((size,)), nd.zeros((size,))) for _ in joined]
        for worker, gradient, to in zip(joined, gradients, outs, strict=True):
            writes = (*to, residuals[worker.rank])
            more = {"bits": int(kind[0]), "threshold": 0.5}
            worker.push(CODES, keys[worker.rank], (nd.array(gradient),), writes, **more)
        expected = np.zeros(size, np.float32)
        for rank, gradient in enumerate(gradients):
            codes = np.zeros(how.words(size), np.uint32)
            how.compress(gradient, kept[rank], codes)
            how.expand(codes, expected, add=rank > 0)
        for to in outs:
            assert all((out.asnumpy() == expected).all() for out in to)
        assert all((a.asnumpy() == b).all() for a, b in zip(residuals, kept, strict=True))


def test_more_keys_than_a_round_tells_of_at_first(make: Make) -> None:
    joined = make(2)
    outs = []
    for worker in joined:
        for _ in range(300):
            key = worker.exchange.new_key()
            outs.append((key, nd.zeros((1 + key % 7,))))
            worker.push(SUM, key, (nd.full((1 + key % 7,), key),), (outs[-1][1],), priority=-key)
    for key, out in outs:
        assert (out.asnumpy() == 2 * key).all()


def test_steps_and_what_differs_are_told(make: Make) -> None:
    joined = make(2)
    joined[0].exchange.set_step(5)
    time.sleep(0.02)
    assert not joined[0].found
    joined[1].exchange.set_step(5)
    limit = time.monotonic() + 20
    while not all(worker.found for worker in joined) and time.monotonic() < limit:
        time.sleep(0.005)
    assert all(worker.found.pop().step for worker in joined)
    for worker in joined:
        worker.exchange.set_step(8 + worker.rank)
    while not all(worker.found for worker in joined) and time.monotonic() < limit:
        time.sleep(0.005)
    assert all(worker.found[0].differs and not worker.found[0].told for worker in joined)


def test_a_worker_that_is_gone_is_waited_for_until_somebody_says_so(make: Make) -> None:
    joined = make(2)
    outs = [nd.zeros((2_000_000,)) for _ in joined]
    keys = [worker.exchange.new_key() for worker in joined]
    joined[0].push(SUM, keys[0], (nd.ones((2_000_000,)),), (outs[0],))
    limit = time.monotonic() + 20
    while joined[0].exchange.oldest()[0] < 0.05 and time.monotonic() < limit:
        time.sleep(0.01)
    waited, told = joined[0].exchange.oldest()
    assert waited > 0.05 and told == f"push of {keys[0]}" and not outs[1].asnumpy().any()
    joined[0].fail()
    last = nd.zeros((2_000_000,))
    joined[0].push(SUM, keys[0], (nd.ones((2_000_000,)),), (last,))  # ends at once
    with pytest.raises(MXNetError, match="a worker is lost"):
        outs[0].wait_to_read()
    joined[0].thread.join(5.0)
    assert joined[0].found[-1].what == "failed" and joined[0].transport.stopped
    with pytest.raises(MXNetError, match="a worker is lost"):
        last.wait_to_read()


def test_nobody_spins_while_others_compute(make: Make) -> None:
    joined = make(2)
    out = nd.zeros((10,))
    before = time.thread_time(), time.process_time()
    joined[0].push(SUM, joined[0].exchange.new_key(), (nd.ones((10,)),), (out,))
    time.sleep(0.5)
    assert time.process_time() - before[1] < 0.25
    other = nd.zeros((10,))
    joined[1].push(SUM, joined[1].exchange.new_key(), (nd.ones((10,)),), (other,))
    assert (out.asnumpy() == 2).all() and (other.asnumpy() == 2).all()


def each(transports: list[Any], run: Callable[[int, Any], object]) -> list[Any]:
    """What every worker gets, all of them at the same time."""
    with ThreadPoolExecutor(len(transports)) as pool:
        return [done.result(20.0) for done in [pool.submit(run, *pair) for pair in enumerate(transports)]]


def as_bytes(array: Any) -> Any:
    return array.view(np.uint8)


@pytest.mark.parametrize("alone", ALONE)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_transports_sum_and_give_arrays(alone: Callable[[int], list[Any]], workers: int) -> None:
    transports, random = alone(workers), np.random.default_rng(workers)
    sizes = (5, 0, 300_001, 64, 1)
    terms = [[random.standard_normal(size).astype(np.float32) for size in sizes] for _ in transports]
    sums = [np.zeros(size, np.float32) for size in sizes]

    def run(rank: int, transport: Any) -> list[Any]:
        receives = [np.zeros(4 * size, np.uint8) for size in sizes]
        if rank == workers - 1:
            receives = list(map(as_bytes, sums))
        only_gives = alone is windows and rank < workers - 1
        sends = list(map(as_bytes, terms[rank]))
        assert transport.sum(dtypes.code("float32"), sends, None if only_gives else receives)
        given = [np.full(size, rank, np.int16) for size in sizes]
        assert transport.give([place % workers for place in range(len(sizes))], list(map(as_bytes, given)))
        return given

    for given in each(transports, run):
        for place, (array, size) in enumerate(zip(given, sizes, strict=True)):
            assert (array == np.full(size, place % workers)).all()
    for place, found in enumerate(sums):
        assert found.tobytes() == summed([each[place] for each in terms]).tobytes()


@pytest.mark.parametrize("alone", ALONE)
def test_a_transport_that_is_stopped_ends_sums(alone: Callable[[int], list[Any]]) -> None:
    here, there = alone(2)
    values = np.zeros(10, np.uint8)
    threading.Timer(0.2, here.stop).start()
    assert not here.sum(dtypes.code("uint8"), [values], [values.copy()])
    assert not here.give([1], [values])
    assert here.stopped and not there.stopped


def test_links_say_which_connection_broke() -> None:
    here, _, gone = links(3)
    del gone
    values = np.zeros(10, np.uint8)
    assert not here.sum(dtypes.code("uint8"), [values], [values.copy()])
    assert (
        re.fullmatch("the connection for (terms|sums) to worker 2 broke: .+", here.broken)
        and not here.stopped
    )


@pytest.mark.parametrize("make", [links], indirect=True)
def test_what_is_under_way_when_a_connection_breaks_waits_for_the_reason(make: Make) -> None:
    joined = make(2)
    out = nd.zeros((2_000_000,))
    joined[1].ended = True
    joined[1].thread.join(10.0)
    joined[0].push(SUM, joined[0].exchange.new_key(), (nd.ones((2_000_000,)),), (out,))
    (joined[1].transport,) = links(1)  # so that the others go
    joined[0].thread.join(10.0)
    assert joined[0].found[-1].what == "failed" and not joined[0].transport.stopped
    joined[0].fail()
    with pytest.raises(MXNetError, match="a worker is lost"):
        out.wait_to_read()


NO_MEMORY = """
import os, resource, socket, threading
from mx_core.errors import MXNetError
from mx_kvstore.exchange import SUM, Exchange, Links, push
from mx_ndarray import nd

ends = [(socket.socketpair(), socket.socketpair()) for _ in range(199)]
links = Links([(-1, -1)] + [(terms[0].detach(), sums[0].detach()) for terms, sums in ends], 0)
exchange = Exchange(lambda: MXNetError("[test] failed"))
given, out = nd.ones((100,)), nd.zeros((100,))
out.wait_to_read()

def agree():
    # the others tell what this worker does
    for terms, _ in ends:
        terms[1].settimeout(30.0)
        terms[1].sendall(terms[1].recv(1 << 20))

def run():
    try:
        print("ran", exchange.run(links, 5.0).what)
    except MemoryError as error:
        print("no memory", exchange.inside)
        exchange.fail()

threads = [threading.Thread(target=each, daemon=True) for each in (agree, run)]
threads[0].start()
push(exchange, SUM, 0, "push of 0", 7, 0, (given,), (out,))
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (20 << 20), resource.RLIM_INFINITY))
threads[1].start()
for thread in threads:
    thread.join(30.0)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
try:
    out.wait_to_read()
except MXNetError as error:
    print("ended:", error, flush=True)
os._exit(0)
"""


def test_what_waits_ends_where_there_is_no_memory_for_an_exchange() -> None:
    run = subprocess.run([sys.executable, "-c", NO_MEMORY], capture_output=True, text=True, timeout=120)
    assert run.stdout == "no memory 0.0\nended: [test] failed\n", run.stdout + run.stderr


@pytest.mark.parametrize("alone", ALONE)
def test_arrays_that_cannot_be_exchanged_are_refused(alone: Callable[[int], list[Any]]) -> None:
    (window,) = alone(1)
    values = np.zeros(12, np.uint8)
    frozen = values.copy()
    frozen.flags.writeable = False
    code = dtypes.code("float32")
    assert window.sum(code, [frozen], [values])
    for arguments, error in (
        ((code, [values], []), ArgumentError),
        ((code, [values], [values[:8]]), ArgumentError),
        ((code, [values[:3]], [values[:3]]), ArgumentError),
        ((99, [values], [values]), DTypeError),
        ((code, [values], [frozen]), MXNetError),
        ((code, [values[::2]], None), TypeError),
        ((code, [values.view(np.float32)], None), TypeError),
    ):
        with pytest.raises(error):
            window.sum(*arguments)
    for roots, arrays, kind in (
        ([1], [values], ArgumentError),
        ([-1], [values], ArgumentError),
        ([0], [], ArgumentError),
        ([0], [frozen], MXNetError),
    ):
        with pytest.raises(kind):
            window.give(roots, arrays)


def test_wrong_windows_and_calls_are_refused() -> None:
    file = os.memfd_create("test")
    try:
        with pytest.raises(ArgumentError, match="expected [0-9]+ bytes, got 0"):
            Window(file, 0, 2)
        with pytest.raises(ArgumentError, match="rank: expected one of 2, got 2"):
            Window(file, 2, 2)
    finally:
        os.close(file)
    exchange = Exchange(lambda: None)
    a = nd.ones((2,))
    for kind, reads, writes in ((SUM, (), (a,)), (FIRST, (a,), (a,)), (CODES, (a,), (a,)), (3, (a,), (a,))):
        with pytest.raises(ArgumentError, match=f"these arrays are not those of kind {kind}"):
            push(exchange, kind, 0, "x", 1, 0, reads, writes)
