# SPDX-License-Identifier: Apache-2.0
"""What a server holds outlives its process, whole or not at all, and of a job what is to outlive it."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

from asked_server import Job, run, settled

import mx
from mx_kvstore_ray import memory, state
from mx_kvstore_ray.described import describe
from mx_kvstore_ray.server import Server


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
                    job.server._state.checkpoint()
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
                job.server._state.checkpoint()
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
                patch.setattr(job.server._state._journal, "append", lambda *what: 1 / 0)
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


def test_files_of_another_number_of_servers_are_refused(folder: Path) -> None:
    async def program() -> None:
        job = Job(folder / "server-0")
        await job.ask(0, "join")
        said = f"{folder} has the files of a job with 1 servers, and this one has 3; start it with -s 1, or name another"
        with pytest.raises(mx.MXNetError, match=said):
            job.later(servers=3)
        job.later(servers=1)

    run(program)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_files_of_a_start_that_was_stopped_are_no_hindrance(folder: Path, checkpoint: bool) -> None:
    """Workers that come know that all servers are there; before, nothing of a job is lost with others."""

    async def program() -> None:
        job = Job(folder / "server-0")
        await job.ask(None, "join")
        job.later(servers=3)
        await job.ask(0, "join")
        if checkpoint:
            job.server._state.checkpoint()
        with pytest.raises(mx.MXNetError, match="with 3 servers, and this one has 1"):
            job.later(servers=1)
        job.later(servers=3)

    run(program)


SGD = mx.optimizer.SGD(learning_rate=-1, momentum=0.5)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_later_job_with_another_optimizer_is_refused(folder: Path, checkpoint: bool) -> None:
    async def program() -> None:
        job = Job(folder / "server-0")
        await job.init("w", [0])
        await job.ask(0, "optimizer", n=1, optimizer=describe(SGD))
        await asyncio.gather(*(job.push(rank, 1, [1]) for rank in (0, 1)))
        if checkpoint:
            job.server._state.checkpoint()
        others = {
            "sgd with momentum 0.5, and this one sets sgd with momentum 0.75": mx.optimizer.SGD(
                momentum=0.75
            ),
            "sgd with momentum 0.5, .*sets adam with beta1 0.9, beta2 0.75,": mx.optimizer.Adam(beta2=0.75),
        }
        for said, optimizer in others.items():
            job.later()
            with pytest.raises(
                RuntimeError, match=f"ProtocolError.*the files in {folder} are of a job with {said}"
            ):
                await job.ask(0, "optimizer", n=1, optimizer=describe(optimizer))
            with pytest.raises(RuntimeError, match="ProtocolError.*--new-optimizer"):
                await job.push(1, 2, [1])  # all workers hear it
        job.later()
        with pytest.raises(RuntimeError, match=r"push 2 of key 'w'.*sgd, and worker 1 has set no optimizer"):
            await job.push(1, 2, [1])
        job.later()
        await job.ask(0, "optimizer", n=1, optimizer=describe(SGD))
        rates = {"lr": -2.0}
        found = await asyncio.gather(*(job.push(rank, 2, [1], rates=rates) for rank in (0, 1)))
        assert found[0] == found[1] == 2 + (2 / 2 + 2 * 2), "the momentum goes on"

    run(program)


def test_rates_and_counts_of_a_later_job_may_be_others(folder: Path) -> None:
    """As those of more workers, and of one that goes on."""

    async def program() -> None:
        job = Job(folder)
        await job.ask(0, "optimizer", n=1, optimizer=describe(SGD))
        job.later()
        other = mx.optimizer.SGD(momentum=0.5, learning_rate=3, wd=1, rescale_grad=0.25, begin_num_update=7)
        other._update_count(0)
        await job.ask(0, "optimizer", n=1, optimizer=describe(other))

    run(program)


@pytest.mark.parametrize(
    ("kind", "options", "other"),
    [
        ("FactorScheduler", {"step": 10, "factor": 0.5}, {"factor": 0.25}),
        ("MultiFactorScheduler", {"step": [10, 20], "factor": 0.5}, {"step": [10, 21]}),
        ("CosineScheduler", {"max_update": 200, "final_lr": 0.001}, {"base_lr": 0.2}),
        ("PolyScheduler", {"max_update": 200}, {"pwr": 1}),
    ],
)
def test_a_schedule_that_a_later_job_has_asked_for_a_rate_is_no_other_one(
    folder: Path, kind: str, options: dict[str, Any], other: dict[str, Any]
) -> None:
    def made(count: int, **more: Any) -> mx.optimizer.Optimizer:
        schedule = getattr(mx.lr_scheduler, kind)(**{"base_lr": 0.3, **options, **more})
        optimizer = mx.optimizer.SGD(lr_scheduler=schedule, begin_num_update=count)
        assert 0 < optimizer.learning_rate <= 0.3  # as a handler that logs it before the first step
        return optimizer

    async def program() -> None:
        job = Job(folder)
        await job.ask(0, "optimizer", n=1, optimizer=describe(made(0)))
        for count in (0, 5, 100):
            job.later()
            await job.ask(0, "optimizer", n=1, optimizer=describe(made(count)))
        job.later()
        with pytest.raises(RuntimeError, match="ProtocolError.*this one sets sgd with lr_scheduler"):
            await job.ask(0, "optimizer", n=1, optimizer=describe(made(100, **other)))

    run(program)


@pytest.mark.parametrize("kills", [False, True])
def test_a_later_job_takes_another_optimizer_where_it_is_told_to(folder: Path, kills: bool) -> None:
    async def program() -> None:
        job, new = Job(folder), describe(mx.optimizer.SGD(learning_rate=-2))
        await job.init("w", [0])
        await job.ask(0, "optimizer", n=1, optimizer=describe(SGD))
        await asyncio.gather(*(job.push(rank, 1, [1]) for rank in (0, 1)))
        job.later(new_optimizer=True)
        for n in (2, 3):
            await job.ask(0, "optimizer", n=1, optimizer=new)
            found = await asyncio.gather(*(job.push(rank, n, [1]) for rank in (0, 1)))
            assert found[0] == found[1] == 2 + (n - 1) * 2 * 2, "without momentum"
            if kills:
                job.kill()
        job.later(new_optimizer=False)
        await job.ask(0, "optimizer", n=1, optimizer=new)
        await job.ask(0, "optimizer", n=2, optimizer=describe(SGD))  # within a job, it may be another one

    run(program)


@pytest.mark.parametrize("takes", [False, True])
def test_pushes_that_are_applied_at_once_wait_for_the_optimizer_of_their_job(
    folder: Path, takes: bool
) -> None:
    async def program() -> None:
        job, new = Job(folder), describe(mx.optimizer.SGD(learning_rate=-2))
        await job.init("w", [0])
        await job.ask(0, "optimizer", n=1, optimizer=describe(SGD))
        await job.push(1, 1, [1], command="push at once")
        job.later(new_optimizer=takes)
        early = asyncio.create_task(job.push(1, 2, [1], command="push at once"))
        await settled([early])
        assert (await job.ask(1, "pull", key="w")).tolist() == [1]
        if takes:
            await job.ask(0, "optimizer", n=1, optimizer=new)
            await early
            assert (await job.ask(1, "pull", key="w")).tolist() == [1 + 2]
            return
        for refused in (job.ask(0, "optimizer", n=1, optimizer=new), early):
            with pytest.raises(RuntimeError, match="ProtocolError.*--new-optimizer"):
                await refused

    run(program)


def test_a_later_job_sets_optimizers_in_turn_or_the_last_alone(folder: Path) -> None:
    async def program() -> None:
        job, optimizers = Job(folder), [describe(mx.optimizer.SGD(momentum=m)) for m in (0.25, 0.5, 0.75)]
        for n in (1, 2):
            await job.ask(0, "optimizer", n=n, optimizer=optimizers[n - 1])
        job.later()
        for n in (1, 2):
            await job.ask(0, "optimizer", n=n, optimizer=optimizers[n - 1])
        assert job.server._state.store(0).updater.optimizer.momentum == 0.5
        job.later()
        await job.ask(0, "optimizer", n=1, optimizer=optimizers[1])
        await job.ask(0, "optimizer", n=2, optimizer=optimizers[2])
        assert job.server._state.store(0).updater.optimizer.momentum == 0.75
        job.later()
        with pytest.raises(
            RuntimeError, match="with momentum 0.75, and this one sets sgd with momentum 0.25"
        ):
            await job.ask(0, "optimizer", n=1, optimizer=optimizers[0])

    run(program)


@pytest.mark.parametrize("command", ["push", "push at once"])
def test_a_later_job_that_sets_the_first_of_two_optimizers_alone_is_refused(
    folder: Path, command: str
) -> None:
    async def program() -> None:
        job = Job(folder / "server-0")
        optimizers = [describe(mx.optimizer.SGD(momentum=m)) for m in (0.25, 0.5)]
        told: dict[str, Any] = {"command": command, "rates": {"lr": -1.0}}
        await job.init("w", [0])
        for n in (1, 2):
            await job.ask(0, "optimizer", n=n, optimizer=optimizers[n - 1])
            await asyncio.gather(*(job.push(rank, n, [1], **told) for rank in (0, 1)))
        for count in (2, 1):
            job.later()
            for n in range(1, count + 1):
                await job.ask(0, "optimizer", n=n, optimizer=optimizers[n - 1])
                await asyncio.gather(*(job.push(rank, n, [1], **told) for rank in (0, 1)))  # counted before
            pushes = [job.push(rank, 5 - count, [1], **told) for rank in (1, 0)]
            found = await asyncio.gather(*pushes, return_exceptions=True)
            said = f"the files in {folder} are of a job that has set sgd with momentum 0.5 after sgd with momentum 0.25"
            assert (said in str(found[1])) is (count == 1), found

    run(program)


def test_two_processes_never_have_the_same_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_HELD", 0.1)

    async def program() -> None:
        job = Job(folder, 1)
        await job.init("w", [1])
        with pytest.raises(mx.MXNetError, match="another process has the files"):
            Server(job.place)
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


def test_a_later_job_loads_states(folder: Path) -> None:
    """Also one that loads no more often than the job before, which has counted its own."""

    async def program() -> None:
        job = Job(folder)
        await job.init("w", [1])
        sgd = describe(mx.optimizer.create("sgd", learning_rate=-1, momentum=1))
        await job.ask(0, "optimizer", n=1, optimizer=sgd)
        saved = []
        for n in (1, 2):
            await asyncio.gather(*(job.push(rank, n, [1]) for rank in (0, 1)))
            saved.append(await job.ask(0, "save", dump=False))
        await job.ask(0, "load", saved[0], n=1)
        job.later()
        await job.ask(0, "load", saved[1], n=1)
        assert (await job.ask(0, "save", dump=False)).tobytes() == saved[1].tobytes() != saved[0].tobytes()
        job.kill()
        await job.ask(0, "load", saved[0], n=1)
        assert (await job.ask(0, "save", dump=False)).tobytes() == saved[1].tobytes(), "a repetition"

    run(program)


@pytest.mark.parametrize("end", ["ended", "lost", "fail", "restarted"])
@pytest.mark.parametrize("policy", ["stop", "continue", "restart"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_later_job_waits_for_all_its_workers(folder: Path, policy: str, end: str, checkpoint: bool) -> None:
    """However the job before has ended, and with whom."""

    async def program() -> None:
        job = Job(folder, 2, policy)
        await job.init("w", [0])
        await asyncio.gather(*(job.push(rank, 1, [1]) for rank in (0, 1)))
        await asyncio.gather(*(job.ask(rank, "barrier", n=1, called="barrier", keys=1) for rank in (0, 1)))
        then = "continue" if end == "lost" else "restart" if end == "restarted" else "stop"
        for rank in (0, 1):
            if end == "ended":
                await job.ask(None, "ended", rank=rank)
            else:
                await job.ask(None, "lost", rank=rank, start=0, then=then, why="why")
        if checkpoint:
            job.server._state.checkpoint()
        job.later(3)
        assert (await job.ask(2, "rounds")) == {"rounds": [1], "met": 0}
        assert (await job.push(0, 1, [5])).tolist() == [2], "it counts already"
        early = [asyncio.create_task(job.push(rank, 2, [10**rank])) for rank in (0, 1)]
        meets = [
            asyncio.create_task(job.ask(rank, "barrier", n=1, called="barrier", keys=1)) for rank in (0, 1)
        ]
        await settled([*early, *meets])
        job.kill()  # what the new one wrote down is of the new job
        tasks = [asyncio.create_task(job.push(rank, 2, [10**rank])) for rank in (0, 1)]
        await settled(tasks)
        assert (await job.push(2, 2, [100])).tolist() == [111]
        for task in [*early, *meets]:
            task.cancel()

    run(program)


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
