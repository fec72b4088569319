# SPDX-License-Identifier: Apache-2.0
"""What a server counts, sums and remembers, without Ray: the actor only calls it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

from asked_server import FLOAT, Job, run, settled

import mx
from mx_core import dtypes
from mx_engine import profiler
from mx_kvstore.compression import Compression
from mx_kvstore.storage import CSR, ROW_SPARSE
from mx_kvstore_ray.described import describe


def test_first_values_of_another_shape_are_refused(folder: Path) -> None:
    async def program() -> None:
        job = Job(folder)
        told = {"key": "w", "shape": [6], "code": FLOAT}
        early = asyncio.create_task(job.ask(1, "pull", **told, whole=[2, 3]))
        await settled([early])
        await job.ask(0, "init", np.zeros(6, np.float32), **told, whole=[2, 3])
        assert (await early).tolist() == [0] * 6
        job.kill()  # what files say of it, too
        said = re.escape(
            "first values of key 'w' differ: worker 0 has shape (2, 3) and type float32, worker 1 shape (3, 2) and "
            "type float32"
        )
        with pytest.raises(RuntimeError, match=f"ProtocolError.*{said}"):
            await job.ask(1, "pull", **told, whole=[3, 2])
        with pytest.raises(RuntimeError, match=said):  # of the whole job, by now
            await job.push(0, 1, [1] * 6, key="w")

    run(program)


def test_another_optimizer_than_that_of_others_is_refused(folder: Path) -> None:
    async def program() -> None:
        job = Job(folder, workers=3)
        told = [describe(mx.optimizer.SGD(learning_rate=0.5, momentum=m)) for m in (0.5, 0.5, 0.75)]
        await job.ask(1, "optimizer", n=1, optimizer=told[1])
        assert job.server._state.store(0).updater is None, "that of worker 0 is the one that runs"
        await job.ask(0, "optimizer", n=1, optimizer=told[0])
        await job.ask(0, "optimizer", n=2, optimizer=told[2])  # a later one may be another one
        said = re.escape("worker 1 has sgd with momentum 0.5; worker 2 has sgd with momentum 0.75")
        with pytest.raises(RuntimeError, match=f"ProtocolError.*optimizers differ: {said}"):
            await job.ask(2, "optimizer", n=1, optimizer=told[2])

    run(program)


def test_an_optimizer_whose_factors_come_in_another_order_is_the_same(folder: Path) -> None:
    """As when a script walks over a set of names, whose order is each process's own."""

    async def program() -> None:
        job = Job(folder, workers=2)
        for rank, names in enumerate((("a", "b"), ("b", "a"))):
            optimizer = mx.optimizer.SGD(learning_rate=0.5, wd=float("nan"))
            optimizer.set_lr_mult({name: ord(name) / 100 for name in names})
            await job.ask(rank, "optimizer", n=1, optimizer=describe(optimizer))
        optimizer.set_lr_mult({"a": 0.97, "b": 0.5})
        await job.ask(0, "optimizer", n=2, optimizer=describe(optimizer))
        optimizer.set_lr_mult({"a": 0.97, "b": 0.25})
        with pytest.raises(RuntimeError, match=r"worker 0 has sgd with lr_mult [^;]*0\.5.*lr_mult .*0\.25"):
            await job.ask(1, "optimizer", n=2, optimizer=describe(optimizer))

    run(program)


@pytest.mark.parametrize(
    ("storage", "called"),
    [
        (ROW_SPARSE, "a row_sparse value"),
        (CSR, "a csr value"),
        (7, "a value of storage type 7, which is none,"),
        ("rows", "a value of storage type 'rows', which is none,"),
    ],
)
def test_values_that_are_not_dense_are_refused_by_name(folder: Path, storage: Any, called: str) -> None:
    async def program() -> None:
        said = re.escape(f"worker 1 sent {called} of key 'w'; servers keep dense values only")
        rows = {"storage": storage, "indices": 8}
        job = Job(folder)
        await job.init("w", [0, 0])
        one = {"store": 0, "key": "w", "n": 1, "bytes": 8, "rates": {}, "how": None, **rows}
        with pytest.raises(RuntimeError, match=f"ProtocolError.*{said}"):
            await job.ask(1, "push", np.zeros(18, np.float32), pushes=[one])
        with pytest.raises(RuntimeError, match=said):  # of the whole job, by now
            await job.push(0, 1, [1, 1])

    run(program)


def test_a_first_value_that_is_not_dense_is_refused_by_name(folder: Path) -> None:
    async def program() -> None:
        told = {"key": "emb", "shape": [2], "code": FLOAT, "storage": ROW_SPARSE, "indices": 8}
        with pytest.raises(RuntimeError, match="worker 0 sent a row_sparse value of key 'emb'"):
            await Job(folder).ask(0, "init", np.zeros(18, np.float32), **told)

    run(program)


def test_a_round_waits_for_all_and_sums(folder: Path) -> None:
    async def program() -> None:
        job = Job(folder, 3)
        await job.init("w", [0, 0])
        tasks = [asyncio.create_task(job.push(rank, 1, [rank, 1])) for rank in (2, 0)]
        await settled(tasks)
        found = [await job.push(1, 1, [1, 1]), *(await asyncio.gather(*tasks))]
        assert [values.tolist() for values in found] == [[3, 3]] * 3

    run(program)


def test_a_push_that_comes_again_counts_once(folder: Path) -> None:
    async def program() -> None:
        job = Job(folder)
        await job.init("w", [0])
        first = [asyncio.create_task(job.push(0, 1, [5])) for _ in range(3)]
        await settled(first)
        assert (await job.push(1, 1, [7])).tolist() == [12]
        assert [each.tolist() for each in await asyncio.gather(*first)] == [[12]] * 3
        assert (await job.push(0, 1, [5])).tolist() == [12]
        await job.ask(0, "optimizer", n=1, optimizer=describe(mx.optimizer.create("test")))
        await job.ask(0, "optimizer", n=1, optimizer=describe(mx.optimizer.create("test")))
        for _ in range(2):
            await job.push(0, 1, [5], key="w", command="push at once")
        assert (await job.ask(1, "pull", key="w")).tolist() == [17]

    run(program)


@pytest.mark.parametrize("policy", ["stop", "continue", "restart"])
def test_a_lost_worker(folder: Path, policy: str) -> None:
    async def program() -> None:
        job = Job(folder, 3, policy)
        await job.init("w", [0])
        tasks = [asyncio.create_task(job.push(rank, 1, [10**rank])) for rank in (0, 2)]
        await settled(tasks)
        why = "[KVStore] worker 2 (process 7) was killed by signal 9 (SIGKILL)"
        for _ in range(2):  # the launcher may say it again
            await job.ask(None, "lost", rank=2, start=0, then=policy, why=why)
        with pytest.raises(
            RuntimeError, match="worker 2"
        ):  # what it has sent before, or one that was cut off
            await tasks[1]
        if policy == "stop":
            for rank in (0, 1):
                with pytest.raises(RuntimeError, match="PeerLostError: .*worker 2 .*SIGKILL"):
                    await (tasks[0] if rank == 0 else job.push(rank, 1, [1]))
            job.kill()
            with pytest.raises(RuntimeError, match="PeerLostError: .*worker 2 .*SIGKILL"):
                await job.ask(0, "rounds")
        elif policy == "continue":
            assert (await job.push(1, 1, [10])).tolist() == (await tasks[0]).tolist() == [11]
            with pytest.raises(RuntimeError, match="without it"):
                await job.push(2, 1, [100])
        else:
            second = asyncio.create_task(job.push(1, 1, [10]))
            await settled([tasks[0], second])
            with pytest.raises(RuntimeError, match="worker 2 "):
                await job.push(2, 1, [5])
            job.starts[2] = 1
            assert (await job.push(2, 1, [100])).tolist() == [111]
            assert (await tasks[0]).tolist() == (await second).tolist() == [111]

    run(program)


def test_a_worker_that_begins_anew_repeats_what_counts_already(folder: Path) -> None:
    async def program() -> None:
        job = Job(folder, 2, "restart")
        await job.init("w", [0])
        for n in (1, 2):
            await asyncio.gather(job.push(0, n, [n]), job.push(1, n, [n]), job.ask(0, "barrier", n=n, called="b", keys=1),
                                 job.ask(1, "barrier", n=n, called="b", keys=1))  # fmt: skip
        await job.ask(None, "lost", rank=0, start=0, then="restart", why="")
        job.starts[0] = 1
        await job.init("w", [9])  # which it has already
        for n in (1, 2):
            assert (await job.push(0, n, [50])).tolist() == [4]
            await job.ask(0, "barrier", n=n, called="b", keys=1)
        last = asyncio.create_task(job.push(0, 3, [3]))
        await settled([last])
        assert (await job.push(1, 3, [4])).tolist() == [7]

    run(program)


def test_who_has_ended_is_waited_for_no_more(folder: Path) -> None:
    async def program() -> None:
        job = Job(folder / "stop")
        await job.init("w", [0])
        waits = asyncio.create_task(job.push(0, 1, [1]))
        meets = asyncio.create_task(job.ask(0, "barrier", n=1, called="barrier", keys=1))
        await settled([waits, meets])
        await job.ask(None, "ended", rank=1)
        for each in (waits, meets):
            with pytest.raises(RuntimeError, match="worker 1 has ended its program, and worker 0 waits"):
                await each
        job = Job(folder / "continue", 2, "continue")
        await job.init("w", [0])
        waits = asyncio.create_task(job.push(0, 1, [1]))
        await settled([waits])
        await job.ask(None, "ended", rank=1)
        assert (await waits).tolist() == [1]

    run(program)


def test_a_lost_worker_that_only_could_give_it_is_not_waited_for(folder: Path) -> None:
    """Worker 0 gives first values and the optimizer, and the job goes on without it."""

    async def program() -> None:
        job = Job(folder, 3, "continue")
        await job.init("w", [0])
        waits = [
            asyncio.create_task(job.ask(1, "pull", key="x")),
            asyncio.create_task(job.push(1, 1, [1], command="push at once")),
        ]
        await settled(waits)
        await job.ask(None, "lost", rank=0, start=0, then="continue", why="")
        said = "PeerLostError: .*worker 0 has been lost, and worker 1 waits: "
        with pytest.raises(RuntimeError, match=f"{said}the first value of key 'x'"):
            await waits[0]
        with pytest.raises(RuntimeError, match=f"{said}push of key 'w', for the optimizer of worker 0"):
            await waits[1]

    run(program)


def test_waits_have_a_deadline_and_name_who_is_missing(folder: Path) -> None:
    async def program() -> None:
        waits = [
            ("workers 1, 2: push 1 of key 'w'", lambda job: job.push(0, 1, [1])),
            ("workers 1, 2: barrier", lambda job: job.ask(0, "barrier", n=1, called="barrier", keys=1)),
            ("worker 0: the first value of key 'x'", lambda job: job.ask(1, "pull", key="x")),
        ]
        for place, (what, call) in enumerate(waits):
            for policy in ("stop", "continue"):
                job = Job(folder / f"{place}-{policy}", 3, policy, timeout=0.1)
                await job.init("w", [0])
                with pytest.raises(RuntimeError, match=f"PeerTimeoutError: .*{what}"):
                    await call(job)
                if policy == "continue":
                    await job.ask(2, "rounds")  # the others may go on
                else:
                    with pytest.raises(RuntimeError, match=f"PeerTimeoutError: .*{what}"):
                        await job.ask(2, "rounds")

    run(program)


def test_all_workers_hear_the_same_error(folder: Path) -> None:
    """Also those that wait, those that come later, those of a server that comes back, and those of other servers."""

    async def program() -> None:
        job, other = Job(folder / "a", 3), Job(folder / "b", 3)
        await job.init("w", [0])
        waits = asyncio.create_task(job.push(0, 1, [1]))
        await settled([waits])
        said = []
        for call in (
            lambda: job.push(1, 1, [1, 2]), lambda: waits, lambda: job.push(2, 1, [1]), lambda: job.ask(0, "rounds")
        ):  # fmt: skip
            with pytest.raises(RuntimeError) as found:
                await call()
            said.append(str(found.value))
        job.kill()
        with pytest.raises(RuntimeError) as found:
            await job.ask(1, "rounds")
        kind, _, why = said[0].partition(": ")
        await other.ask(1, "fail", kind=kind, why=why)
        await other.ask(
            None, "lost", rank=1, start=0, then="stop", why="worker 1 has ended"
        )  # which is no cause
        with pytest.raises(RuntimeError) as there:
            await other.ask(0, "rounds")
        assert {*said, str(found.value), str(there.value)} == {said[0]}
        assert said[0].startswith("ProtocolError: [KVStore server] key 'w': expected 4 bytes, got 8"), said

    run(program)


def test_first_values_wake_only_those_that_wait_for_them(folder: Path) -> None:
    async def program() -> None:
        job, keys = Job(folder), range(300)
        looks = 0
        until = job.server._waits.until

        async def counted(waiters: Any, rank: int, ready: Any, *more: Any) -> None:
            def looked() -> bool:
                nonlocal looks
                looks += 1
                return bool(ready())

            await until(waiters, rank, looked, *more)

        job.server._waits.until = counted  # type: ignore[method-assign]
        pulls = [asyncio.create_task(job.ask(1, "pull", key=key)) for key in keys]
        await settled(pulls)
        for key in keys:
            await job.init(key, [key])
        assert [(await each).tolist() for each in pulls] == [[key] for key in keys]
        assert looks <= 4 * len(keys)

    run(program)


def test_what_does_not_fit_ends_the_job(folder: Path) -> None:
    async def program() -> None:
        for place, wrong in enumerate(
            [
                lambda job: job.push(0, 2, [1]),
                lambda job: job.push(0, 1, [1, 2]),
                lambda job: job.push(0, 1, [1], key="unknown"),
                lambda job: job.ask(0, "steal"),
                lambda job: job.ask(0, "lost", rank=1, start=0, then="stop", why=""),  # only the launcher may
            ]
        ):
            job = Job(folder / str(place))
            await job.init("w", [0])
            for call in (wrong(job), job.push(1, 1, [1])):
                with pytest.raises(RuntimeError, match="ProtocolError"):
                    await call

    run(program)


def test_compressed_pushes_are_summed(folder: Path) -> None:
    async def program() -> None:
        job = Job(folder)
        await job.init("w", [9, 9, 9])
        how, residual = Compression("2bit", 0.5), np.zeros(3, np.float32)
        codes = np.zeros(how.words(3), np.uint32)
        how.compress(np.float32([0.75, -0.5, 0.25]), residual, codes)
        told = [how.kind, how.threshold]
        found = await asyncio.gather(*(job.push(rank, 1, codes, how=told) for rank in (0, 1)))
        assert found[0].tolist() == found[1].tolist() == [1, -1, 0]
        waits = asyncio.create_task(job.push(0, 2, codes, how=told))
        await settled([waits])
        with pytest.raises(
            RuntimeError, match="ProtocolError: .*compression of worker 0 is .*2bit.* worker 1 none"
        ):
            await job.push(1, 2, [1, 1, 1])
        with pytest.raises(RuntimeError, match="ProtocolError: .*compression"):
            await waits

    run(program)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "uint8"])
def test_types_are_summed(folder: Path, dtype: str) -> None:
    async def program() -> None:
        kind = dtypes.numpy_dtype(mx.nd.zeros((1,), dtype=dtype)._dtype_code)
        code = dtypes.code(kind, "test")
        job = Job(folder, 3)
        zero = np.zeros(4, kind)
        await job.ask(0, "init", zero, key="w", shape=[2, 2], code=code)

        async def push(rank: int) -> Any:
            data = np.arange(4).astype(kind)
            one = {"store": 0, "key": "w", "n": 1, "bytes": data.nbytes, "rates": {}, "how": None, "keys": 1}
            bits = data.view(np.uint8)
            bits.flags.writeable = False  # as memory of Ray is
            _, _, found = await job.server.answer("push", (rank, 0), {"pushes": [one]}, bits)
            return found.view(kind)

        for found in await asyncio.gather(*map(push, range(3))):
            assert found.astype(np.float64).tolist() == [0, 3, 6, 9]

    run(program)


def test_a_server_is_profiled(folder: Path, tmp_path: Path) -> None:
    async def program() -> None:
        job = Job(folder, 1)
        for command, arguments in (
            ("set_config", {"filename": str(tmp_path / "servers.json")}),
            ("set_state", {"state": "run"}),
            ("dump", {}),
        ):
            await job.ask(0, "profile", command=command, arguments=arguments)
        with pytest.raises(RuntimeError, match="ArgumentError: .*expected one of set_config"):
            await job.ask(0, "profile", command="dumps", arguments={})

    try:
        asyncio.run(program())
    finally:
        profiler.set_config()
    assert (tmp_path / "rank0_servers.json").exists()
