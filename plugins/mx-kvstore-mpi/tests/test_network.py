# SPDX-License-Identifier: Apache-2.0
"""Networks between hosts, which are namespaces of this machine: sums over them, and links that are slow, or cut."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters.hosts import Hosts, HostsError

pytestmark = pytest.mark.slow

#: seconds in which both sides must know
LIMIT = 15.0

LOOP = """
import os, time
import mx
store = mx.kv.create("dist_sync")
names = ("large", "small", "end")
sizes = dict(zip(names, (SIZE, 10, 1)))
for name in names:
    store.init(name, mx.nd.zeros((sizes[name],)))
outs = {name: mx.nd.zeros((sizes[name],)) for name in names}
print("pid", os.getpid(), "of", store.rank, flush=True)
turn = 0
try:
    while True:
        value = turn % 1000 + store.rank
        for name in names:
            given = os.path.exists(f"{__file__}.end") if name == "end" else value
            store.pushpull(name, mx.nd.full((sizes[name],), given), out=outs[name])
        total = sum(turn % 1000 + rank for rank in range(store.num_workers))
        for name in names[:2]:
            if not (outs[name].asnumpy() == total).all():
                print("a wrong sum", turn, outs[name])
                os._exit(3)
        if outs["end"].asscalar():
            break
        turn += 1
        print("turn", turn, "of", store.rank, flush=True)
        time.sleep(PAUSE)
except mx.MXNetError as error:
    with open(f"{__file__}.{store.rank}", "w") as file:
        file.write(f"{time.time()} {type(error).__name__} {error}")
    raise
print("ended after", turn)
"""


def program(size: int, pause: float) -> str:
    return LOOP.replace("SIZE", str(size)).replace("PAUSE", str(pause))


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    """Two of them."""
    try:
        with Hosts(2, tmp_path / "bin") as made:
            yield made
    except HostsError as error:
        pytest.skip(f"hosts cannot be made here: {error}")


@pytest.mark.parametrize(
    ("workers", "servers", "cut", "pause"),
    [(2, 0, 1, 0.0), (2, 0, 0, 0.5), (2, 1, 1, 0.0), (2, 2, 0, 0.0), (4, 0, 1, 0.0)],
)
def test_a_cut_network_is_told_on_both_sides(
    start: Any, hosts: Hosts, tmp_path: Path, workers: int, servers: int, cut: int, pause: float
) -> None:
    """Processes are on the hosts in turn, workers first. The launcher reaches both hosts by links of its own."""
    job = start(program(200_000, pause), workers, "-s", str(servers), *hosts.options, PATH=hosts.path)
    job.wait_for(r"pid (\d+) of (\d)", workers)
    job.wait_for("turn 2 ", workers)
    check_cut(job, hosts, tmp_path, workers, cut)


def check_cut(job: Any, hosts: Hosts, tmp_path: Path, workers: int, cut: int) -> None:
    """Cuts the link of a host: each worker names a process of the other one, or the launcher, in time."""
    hosts.cut(cut)
    at_cut = time.time()
    assert job.wait(60) != 0, job.text
    for rank in range(workers):
        file = tmp_path / f"program0.py.{rank}"
        limit = at_cut + 2 * LIMIT
        while not file.exists() and time.time() < limit:
            time.sleep(0.1)
        at, kind, message = file.read_text().split(" ", 2)
        lost = r"(worker|server) \d .* no sign of life"
        words = "launcher of the job broke: .*timed out|lost|broke" if rank % 2 == cut else lost
        assert float(at) - at_cut < LIMIT, message
        assert kind == "PeerLostError" and re.search(words, message), message
    assert "a wrong sum" not in job.text, job.text


@pytest.mark.parametrize(("workers", "servers"), [(2, 0), (2, 1), (3, 0)])
def test_a_slow_network_and_a_short_cut_change_nothing(
    start: Any, hosts: Hosts, tmp_path: Path, workers: int, servers: int
) -> None:
    job = start(program(50_000, 0.0), workers, "-s", str(servers), *hosts.options, PATH=hosts.path)

    def go_on(turns: int) -> None:
        before = len(re.findall("turn", job.text))
        job.wait_for("turn", before + turns * workers)

    go_on(20)
    hosts.limit(100e3)  # what a turn sends is queued for seconds, and signs of life behind it
    go_on(3)
    hosts.limit(50e6)
    go_on(20)
    for host in (1, 0):
        hosts.cut(host)
        time.sleep(3.0)
        hosts.mend(host)
        go_on(20)
    (tmp_path / "program0.py.end").touch()
    assert job.wait(60) == 0, job.text
    ended = job.wait_for(r"ended after (\d+)", workers)
    assert len(set(ended)) == 1 and int(ended[0]) > 80, job.text[-2000:]
    assert "a wrong sum" not in job.text, job.text[-2000:]


@pytest.mark.parametrize("loss", [0.0, 0.02])
@pytest.mark.parametrize(
    ("workers", "servers", "transport"), [(2, 0, "tcp"), (2, 0, "mpi"), (2, 1, "mpi"), (3, 0, "tcp")]
)
def test_a_network_with_a_long_way_changes_nothing(
    start: Any, hosts: Hosts, tmp_path: Path, workers: int, servers: int, transport: str, loss: float
) -> None:
    """One host is 60 ms away from the launcher and from the other, and some packets are lost on the way."""
    hosts.delay(0, 0.06, loss)
    environment = {"PATH": hosts.path, "MX_KVSTORE_TRANSPORT": transport}
    job = start(program(300_000, 0.0), workers, "-s", str(servers), *hosts.options, **environment)
    job.wait_for("turn 1 of 0", timeout=120.0)
    begin = time.monotonic()
    job.wait_for("turn 6 of 0", timeout=120.0)
    assert time.monotonic() - begin > 5 * 2 * 0.06, "each turn is a message there and back at least"
    (tmp_path / "program0.py.end").touch()
    assert job.wait(60) == 0, job.text
    assert len(set(job.wait_for(r"ended after (\d+)", workers))) == 1, job.text
    assert "a wrong sum" not in job.text, job.text[-2000:]


@pytest.mark.parametrize(("workers", "servers", "cut"), [(2, 0, 1), (2, 1, 1), (3, 0, 0)])
def test_a_bad_network_that_is_cut_is_told_on_both_sides(
    start: Any, hosts: Hosts, tmp_path: Path, workers: int, servers: int, cut: int
) -> None:
    """What was lost on the long way is sent again, until nobody takes it."""
    hosts.delay(0, 0.06, 0.02)
    job = start(program(100_000, 0.0), workers, "-s", str(servers), *hosts.options, PATH=hosts.path)
    job.wait_for("turn 2 of", workers, timeout=120.0)
    check_cut(job, hosts, tmp_path, workers, cut)


@pytest.mark.parametrize(("workers", "servers"), [(2, 0), (2, 1), (3, 0)])
def test_a_network_that_loses_a_third_goes_on_or_is_told(
    start: Any, hosts: Hosts, tmp_path: Path, workers: int, servers: int
) -> None:
    """Signs of life may not come through for 10 s: then it is as a network that is cut. Nothing waits for longer."""
    job = start(program(20_000, 0.0), workers, "-s", str(servers), *hosts.options, PATH=hosts.path)
    job.wait_for("turn 2 of", workers, timeout=120.0)
    hosts.delay(0, 0.06, 0.3)
    moved, seen, end = time.monotonic(), len(job.text), time.monotonic() + 60.0
    while job.process.poll() is None and time.monotonic() < end:
        if len(job.text) > seen:
            moved, seen = time.monotonic(), len(job.text)
        assert time.monotonic() - moved < 2 * LIMIT, job.text[-2000:]
        time.sleep(0.1)
    assert "a wrong sum" not in job.text, job.text[-2000:]
    if job.process.poll() is None:
        return
    assert job.process.returncode != 0
    named, end = (
        r"^\S+ PeerLostError .*((worker|server) \d|launcher) .*(no sign of life|broke|lost|ended)",
        time.time() + LIMIT,
    )
    while True:  # processes of the other host may end after the launcher
        told = [path.read_text() for path in tmp_path.glob("program0.py.[0-9]")]
        if any(re.search(named, each) for each in told) or time.time() > end:
            break
        time.sleep(0.1)
    assert told and all(re.search(named, each) for each in told if each), (told, job.text[-2000:])


@pytest.mark.parametrize(("workers", "memory", "times"), [(4, "1", 1.0), (4, "0", 2.0), (2, "1", 1.0)])
def test_one_worker_of_each_host_uses_its_link(
    start: Any, hosts: Hosts, workers: int, memory: str, times: float
) -> None:
    """Of so many times an array: without common memory both workers of a host send it all that the other one gets."""
    size = 500_000
    job = start(program(size, 0.0), workers, *hosts.options, PATH=hosts.path, MX_KVSTORE_SHARED_MEMORY=memory)

    def turns() -> int:
        return len(re.findall("turn .* of 0", job.text))

    job.wait_for("turn 3 of 0")
    before, begin = turns(), hosts.sent(0)
    job.wait_for("turn .* of 0", before + 30)
    each = (hosts.sent(0) - begin) / (turns() - before) / (4 * size)
    assert 0.8 * times < each < 1.3 * times, each


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    left = subprocess.Popen(["true"])
    left.wait()
    names = {f"mxh{left.pid}": ["link", "add", f"mxh{left.pid}", "type", "bridge"],
             f"mxh{left.pid}-1": ["netns", "add", f"mxh{left.pid}-1"]}  # fmt: skip

    def there() -> set[str]:
        shown = [subprocess.run(["ip", *words], capture_output=True, text=True).stdout
                 for words in (["-o", "link"], ["netns", "list"])]  # fmt: skip
        return {name for name in names if re.search(rf"\b{name}(\s|:|$)", "\n".join(shown))}

    if os.geteuid() != 0 or any(subprocess.run(["ip", *words]).returncode for words in names.values()):
        pytest.skip("namespaces need root, and the command ip")
    assert there() == set(names)
    with Hosts(1, tmp_path / "bin") as hosts:
        mine = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        assert hosts.name in mine and there() == set()
