# SPDX-License-Identifier: Apache-2.0
"""What a server counts, sums and remembers, without Ray: the actor only calls it."""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

import mx
from mx_core import dtypes
from mx_engine import profiler
from mx_kvstore.compression import Compression
from mx_kvstore.storage import CSR, ROW_SPARSE
from mx_kvstore_ray import memory, server
from mx_kvstore_ray.described import describe
from mx_kvstore_ray.server import Server

FLOAT = dtypes.code(np.dtype("float32"), "test")


#: of the test that runs
_jobs: list[Job] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    for job in _jobs:
        job.server.close()
    _jobs.clear()


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that is possible: each checkpoint is flushed."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where) as found:
        yield Path(found)


def run(program: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(program(), 60.0))


class Job:
    """A server and workers that ask it."""

    def __init__(self, folder: Path, workers: int = 2, on_loss: str = "stop", timeout: float = 30.0) -> None:
        self.arguments = (0, workers, on_loss, str(folder), timeout, 1e9)
        self.server = Server(*self.arguments)
        _jobs.append(self)
        self.starts = [0] * workers

    def kill(self) -> None:
        """The server's process ends; the next one has its files."""
        self.server.close()
        self.server = Server(*self.arguments)

    async def ask(self, worker: int | None, command: str, data: Any = None, /, **told: Any) -> Any:
        stamp = None if worker is None else (worker, self.starts[worker])
        bits = None if data is None else np.asarray(data).view(np.uint8).reshape(-1)
        error, answer, found = await self.server.answer(command, stamp, {"store": 0, **told}, bits)
        if error is not None:
            raise RuntimeError(": ".join(error))
        return answer if found is None else found.view(np.float32).copy()

    async def init(self, key: Any, values: list[float]) -> None:
        await self.ask(0, "init", np.float32(values), key=key, shape=[len(values)], code=FLOAT)

    async def push(
        self,
        rank: int,
        n: int,
        values: Any,
        key: Any = "w",
        rates: Any = None,
        command: str = "push",
        how: Any = None,
        keys: int = 1,
    ) -> Any:
        data = np.asarray(values, np.uint32 if how else np.float32)
        one = {
            "store": 0,
            "key": key,
            "n": n,
            "bytes": data.nbytes,
            "rates": rates or {},
            "how": how,
            "keys": keys,
        }
        return await self.ask(rank, command, data, pushes=[one])


async def settled(tasks: list[asyncio.Task[Any]]) -> None:
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks), tasks


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
        assert job.server._store(0).updater is None, "that of worker 0 is the one that runs"
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


@pytest.mark.parametrize(
    "kind", ["sgd", "adam", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("nag", "rmsprop"))]
)
def test_a_server_that_comes_back_holds_what_it_held(folder: Path, kind: str) -> None:
    """Killed between any two requests, with and without checkpoints in between: the same bits."""

    async def training(place: Path, kills: float, seed: int) -> list[float]:
        moments = random.Random(seed)
        job = Job(place)
        schedule = mx.lr_scheduler.FactorScheduler(step=3, factor=0.5, base_lr=0.1)
        await job.init("w", [1, 2, 3])
        await job.init("b", [4])
        options = {"momentum": 0.9} if kind in ("sgd", "nag") else {}
        optimizer = describe(mx.optimizer.create(kind, lr_scheduler=schedule, **options))
        await job.ask(0, "optimizer", n=1, optimizer=optimizer)
        values = np.random.default_rng(3)
        for n in range(1, 13):
            for key, size in (("w", 3), ("b", 1)):
                both = values.standard_normal((2, size)).astype(np.float32)
                rates = {"rescale_grad": 1.0 if n < 6 else 0.5}
                if moments.random() < kills:
                    waits = asyncio.create_task(job.push(0, n, both[0], key, rates))
                    await asyncio.sleep(0)
                    job.kill()  # one has pushed, and gets no answer
                    waits.cancel()
                tasks = [asyncio.create_task(job.push(rank, n, both[rank], key, rates)) for rank in (0, 1)]
                await asyncio.gather(*tasks)
                if moments.random() < kills:
                    job.kill()
                if moments.random() < kills / 2:
                    job.server._journal.checkpoint(job.server._state())
        assert (await job.ask(0, "rounds"))["rounds"] == [12, 12]
        return [*(await job.ask(0, "pull", key="w")), *(await job.ask(1, "pull", key="b"))]

    async def program() -> None:
        alone = await training(folder / "alone", 0.0, 0)
        for seed in range(4):
            assert await training(folder / f"killed-{seed}", 0.4, seed) == alone, seed

    run(program)


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
@pytest.mark.parametrize("early", [False, True])
def test_sums_before_an_optimizer_and_changes_after_it_outlive_processes(
    folder: Path, rounds: int, early: bool
) -> None:
    """Killed after each request, or after none; with a checkpoint at any moment, or with none."""

    async def training(place: Path, kills: bool, checkpoint: int) -> list[float]:
        job, step = Job(place), 0

        async def passed() -> None:
            nonlocal step
            step += 1
            if step == checkpoint:
                job.server._journal.checkpoint(job.server._state())
            if kills:
                job.kill()

        async def both(key: str, n: int) -> Any:
            found = await asyncio.gather(*(job.push(rank, n, [n + rank, 2 * n], key) for rank in (0, 1)))
            await passed()
            assert found[0].tolist() == found[1].tolist()
            return found[0].tolist()

        optimizer = describe(mx.optimizer.create("sgd", learning_rate=0.5, momentum=0.5))
        await job.init("v", [9, 9])
        await passed()
        for n in range(1, rounds + 1):
            assert await both("v", n) == [2 * n + 1, 4 * n]
        await job.ask(0, "optimizer", n=1, optimizer=optimizer)
        await passed()
        await job.init("w", [1, 1])
        await passed()
        for n in range(1, 4):
            await both("w", n)
            await both("v", rounds + n)
        return [*(await job.ask(0, "pull", key="v")), *(await job.ask(1, "pull", key="w"))]

    async def program() -> None:
        alone = await training(folder / "alone", False, 0)
        for checkpoint in range(1, rounds + 10) if early else (0,):
            for kills in (False, True):
                place = folder / f"{checkpoint}-{kills}"
                assert await training(place, kills, checkpoint) == alone, (checkpoint, kills)
                shutil.rmtree(place)

    run(program)


def test_values_that_find_no_room_in_files_change_in_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.Memory, "_more", lambda self, size: False)

    async def program() -> None:
        job = Job(folder)
        await job.init("w", [1, 2])
        for n in range(1, 4):
            found = await asyncio.gather(*(job.push(rank, n, [n, rank]) for rank in (0, 1)))
            assert [each.tolist() for each in found] == [[2 * n, 1]] * 2
            job.kill()
            assert (await job.ask(0, "rounds"))["rounds"] == [n]
            assert (await job.ask(0, "pull", key="w")).tolist() == [2 * n, 1]

    run(program)


def test_a_sum_without_its_record_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> None:
        job = Job(folder, 1)
        await job.init("w", [1, 2])
        for n in range(1, 6):
            with monkeypatch.context() as patch:
                patch.setattr(job.server._journal, "append", lambda *what: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    await job.push(0, n, [n, 100])
            job.kill()
            assert (await job.ask(0, "rounds"))["rounds"] == [n - 1]
            assert (await job.ask(0, "pull", key="w")).tolist() == ([1, 2] if n == 1 else [n - 1, 7])
            assert (await job.push(0, n, [n, 7])).tolist() == [n, 7]

    run(program)


def test_a_change_that_is_not_whole_is_no_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_FILE", 4096)

    async def program() -> None:
        job = Job(folder, 1)
        await job.init("w", [1])
        assert (await job.push(0, 1, [2])).tolist() == [2]
        (changes,) = folder.glob("changes-*.bin")
        whole = changes.read_bytes()
        for length in range(0, len(whole) - 1, 3):
            (checkpoint,) = folder.glob("checkpoint-*.bin")
            place = folder / f"cut-{length}"
            place.mkdir()
            (place / checkpoint.name).write_bytes(checkpoint.read_bytes())
            (place / changes.name).write_bytes(whole[:length])
            for values in folder.glob("values-*.bin"):
                shutil.copy(values, place)
            cut = Job(place, 1)
            counted = (await cut.ask(0, "rounds"))["rounds"]
            assert counted in ([], [0])
            if counted:
                assert (await cut.push(0, 1, [2])).tolist() == [2]

    run(program)


def test_two_processes_never_have_the_same_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_HELD", 0.1)

    async def program() -> None:
        job = Job(folder, 1)
        await job.init("w", [1])
        with pytest.raises(mx.MXNetError, match="another process has the files"):
            Server(*job.arguments)
        assert (await job.push(0, 1, [2])).tolist() == [2]
        job.kill()
        assert (await job.ask(0, "pull", key="w")).tolist() == [2]

    run(program)


def test_a_damaged_checkpoint_is_refused(folder: Path) -> None:
    async def program() -> None:
        job = Job(folder, 1)
        await job.init("w", [1])
        job.kill()
        (checkpoint,) = folder.glob("checkpoint-*.bin")
        checkpoint.write_bytes(checkpoint.read_bytes()[:-20])
        with pytest.raises(mx.MXNetError, match=checkpoint.name):
            job.kill()

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


def test_waits_have_a_deadline_and_name_who_is_missing(folder: Path) -> None:
    async def program() -> None:
        job = Job(folder, 3, timeout=0.1)
        await job.init("w", [0])
        with pytest.raises(RuntimeError, match=r"PeerTimeoutError: .*workers 1, 2: push 1 of key 'w'"):
            await job.push(0, 1, [1])
        with pytest.raises(RuntimeError, match=r"PeerTimeoutError: .*workers 1, 2: some barrier"):
            await job.ask(0, "barrier", n=1, called="some barrier", keys=1)
        with pytest.raises(RuntimeError, match="PeerTimeoutError: .*worker 0: the first value of key 'x'"):
            await job.ask(1, "pull", key="x")

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
            with pytest.raises(RuntimeError, match="ProtocolError"):
                await wrong(job)
            with pytest.raises(RuntimeError, match="PeerLostError"):
                await job.push(1, 1, [1])

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
        with pytest.raises(RuntimeError, match="PeerLostError: .*compression"):
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


def test_an_update_that_raises_is_not_repeated_by_the_next_server(folder: Path) -> None:
    async def program() -> None:
        job = Job(folder, 1)
        await job.init("w", [1, 1])
        await job.ask(0, "optimizer", n=1, optimizer=describe(mx.optimizer.GroupAdaGrad()))
        with pytest.raises(RuntimeError, match="expected 2 axes"):
            await job.push(0, 1, [1, 1])
        job.kill()
        assert (await job.ask(0, "rounds"))["rounds"] == [0]
        assert (await job.ask(0, "pull", key="w")).tolist() == [1, 1]

    run(program)
