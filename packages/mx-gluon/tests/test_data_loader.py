# SPDX-License-Identifier: Apache-2.0
"""DataLoader with threads and processes: failures of workers, what is left behind, random numbers, memory."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from mx_core.context import cpu, cpu_pinned
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_gluon import data
from mx_gluon.errors import WorkerError, WorkerTimeoutError
from mx_io.pipeline import Example, ImageSamples, Source
from mx_ndarray import nd
from mx_ndarray import random as mx_random

pytestmark = pytest.mark.timeout(60)
WAYS = [{}, {"thread_pool": True}]


class Calls(data.Dataset):
    """Samples that a function makes of their indices."""

    def __init__(self, fn: Callable[[int], Any], length: int = 8) -> None:
        self._fn, self._length = fn, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, idx: Any) -> Any:
        return self._fn(int(idx))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After each test there are the processes, threads and descriptors of before."""
    before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    yield
    gc.collect()
    for _ in range(100):
        now = threading.active_count(), len(os.listdir("/proc/self/fd"))
        if not multiprocessing.active_children() and now <= before:
            return
        time.sleep(0.05)
    pytest.fail(f"left: {multiprocessing.active_children()}, {threading.enumerate()}, {now} after {before}")


def raising(error: BaseException) -> Callable[[int], Any]:
    def sample(i: int) -> Any:
        if i == 5:
            raise error
        return i

    return sample


@pytest.mark.parametrize("way", WAYS, ids=["processes", "threads"])
def test_an_exception_comes_in_its_place_with_where_it_was_raised(way: dict[str, Any]) -> None:
    got = []
    with pytest.raises(ZeroDivisionError, match="five") as caught:
        for batch in data.DataLoader(Calls(raising(ZeroDivisionError("five"))), 2, num_workers=2, **way):
            got.append(batch.asnumpy().tolist())
    assert got == [[0, 1], [2, 3]]
    if not way:
        (note,) = caught.value.__notes__
        assert "samples 4, 5" in note
        assert "in sample" in note and "raise error" in note


class Odd(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__("odd")


@pytest.mark.parametrize(
    "error", [Odd(1, 2), SystemExit(3), KeyboardInterrupt(), StopIteration(), GeneratorExit()]
)
def test_exceptions_that_cannot_be_raised_here(error: BaseException) -> None:
    with pytest.raises(WorkerError, match=f"samples 4, 5:\nTraceback(.|\n)*{type(error).__name__}"):
        list(data.DataLoader(Calls(raising(error)), 2, num_workers=2))


def test_a_failure_does_not_end_an_epoch_of_threads() -> None:
    with pytest.raises(WorkerError, match="StopIteration"):
        list(data.DataLoader(Calls(raising(StopIteration())), 2, num_workers=2, thread_pool=True))


@pytest.mark.parametrize(
    ("how", "told", "cure"),
    [
        ("os.kill(os.getpid(), 9)", "killed by SIGKILL", "memory was short"),
        ("os._exit(3)", "code 3", "debugger"),
    ],
)
def test_a_process_that_dies_is_named_and_the_loader_goes_on_later(how: str, told: str, cure: str) -> None:
    parent, fatal = os.getpid(), [True]

    def sample(i: int) -> Any:
        if i == 5 and fatal[0] and os.getpid() != parent:
            eval(how)
        return i

    loader = data.DataLoader(Calls(sample), 2, num_workers=2)
    with pytest.raises(
        WorkerError, match=rf"worker \d \(process \d+\) .*{told} while it made .* samples 4, 5; .*{cure}"
    ):
        list(loader)
    fatal[0] = False  # new processes are forked
    assert [batch.asnumpy().tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_an_idle_process_that_is_killed_fails_the_next_batch() -> None:
    loader = data.DataLoader(list(range(100)), 2, num_workers=1, prefetch=0)
    batches = iter(loader)
    next(batches)
    (process,) = multiprocessing.active_children()
    os.kill(process.pid or 0, signal.SIGKILL)
    with pytest.raises(WorkerError, match="SIGKILL"):
        list(batches)
    assert len(list(loader)) == 50


@pytest.mark.parametrize("way", WAYS, ids=["processes", "threads"])
def test_a_batch_that_does_not_come(way: dict[str, Any]) -> None:
    released = threading.Event()
    loader = data.DataLoader(Calls(lambda i: released.wait(20)), 2, num_workers=1, timeout=0.2, **way)
    with pytest.raises(WorkerTimeoutError, match=r"no batch came in 0.2 s: samples \[0, 1\]") as caught:
        next(iter(loader))
    released.set()
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, multiprocessing.TimeoutError)


@pytest.mark.parametrize("way", WAYS, ids=["processes", "threads"])
def test_timeouts_that_a_data_set_raises_are_its_own(way: dict[str, Any]) -> None:
    with pytest.raises(TimeoutError, match="mine") as caught:
        list(data.DataLoader(Calls(raising(TimeoutError("mine"))), 2, num_workers=1, **way))
    assert not isinstance(caught.value, MXNetError)


@pytest.mark.parametrize("way", WAYS, ids=["processes", "threads"])
def test_iterations_may_be_abandoned_and_overlap(way: dict[str, Any]) -> None:
    loader = data.DataLoader(list(range(100)), 5, num_workers=2, **way)
    first, second = iter(loader), iter(loader)
    assert next(first).asnumpy()[0] == next(second).asnumpy()[0] == 0
    assert next(first).asnumpy()[0] == 5
    del first
    assert len(list(second)) == 19
    for batch in loader:
        assert batch.shape == (5,)
        break
    del batch


def test_nothing_is_left_of_a_program_that_was_killed(tmp_path: Any) -> None:
    program = """
        import os, sys, time
        from mx_gluon.data import DataLoader, Dataset

        class Slow(Dataset):
            def __len__(self):
                return 1000

            def __getitem__(self, i):
                time.sleep(0.02)
                return i

        loaders = [DataLoader(Slow(), 4, num_workers=2) for _ in range(3)]
        batches = [next(iter(loader)) for loader in loaders]
        print("ready", flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
        process.stdout.read()  # the workers have it, too: its end comes with theirs


def test_control_c_ends_the_iteration() -> None:
    loader = data.DataLoader(Calls(lambda i: time.sleep(0.05), 1000), 2, num_workers=2, batchify_fn=len)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        batches = iter(loader)
        next(batches)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            list(batches)
        assert time.monotonic() - began < 5
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_forked_program_has_processes_of_its_own() -> None:
    loader = data.DataLoader(list(range(8)), 2, num_workers=1)
    expected = [batch.asnumpy().tolist() for batch in loader]
    pid = os.fork()
    if pid == 0:
        found = [batch.asnumpy().tolist() for batch in loader]
        loader._pool.stop()  # type: ignore[union-attr]
        os._exit(int(found != expected))
    assert os.waitpid(pid, 0)[1] == 0
    assert [batch.asnumpy().tolist() for batch in loader] == expected


def drawn(_: int) -> tuple[float, float, float]:
    import random

    return random.random(), float(np.random.random()), float(mx_random.uniform(shape=(1,)).asscalar())


def test_random_numbers_depend_on_the_batch_and_not_on_the_process() -> None:
    def epochs(workers: int) -> list[Any]:
        np.random.seed(3)
        loader = data.DataLoader(Calls(drawn), 2, num_workers=workers)
        return [[[x.asnumpy().tolist() for x in batch] for batch in loader] for _ in range(2)]

    one, three = epochs(1), epochs(3)
    assert one == three
    numbers = [x for epoch in one for batch in epoch for part in batch for x in part]
    assert len(set(numbers)) == len(numbers) == 2 * 8 * 3
    state = np.random.get_state()[1].tolist()  # type: ignore[union-attr]
    epochs(1)
    assert state == np.random.get_state()[1].tolist()  # type: ignore[union-attr]


def test_batches_lie_in_main_memory_and_live_by_themselves() -> None:
    loader = data.DataLoader(data.ArrayDataset(nd.arange(12).reshape((6, 2)), np.arange(6)), 2, num_workers=2)
    batches = list(loader)
    del loader
    gc.collect()
    for i, (x, y) in enumerate(batches):
        assert x.context == y.context == cpu(0)
        x += 1
        assert x.asnumpy().tolist() == [[4 * i + 1, 4 * i + 2], [4 * i + 3, 4 * i + 4]]
        assert y.asnumpy().tolist() == [2 * i, 2 * i + 1]


def test_batches_of_any_structure_and_of_many_arrays() -> None:
    def batch(samples: Any) -> Any:
        arrays = [nd.full((2,), i) for i in range(450)]
        return {
            "arrays": arrays,
            "none": None,
            "empty": nd.zeros((0, 3)),
            "numpy": np.ones(2),
            "n": len(samples),
        }

    for _ in range(3):
        (made,) = data.DataLoader([1, 2], 2, batchify_fn=batch, num_workers=1)
    assert [int(array[0].asscalar()) for array in made["arrays"]] == list(range(450))
    assert made["none"] is None and made["n"] == 2
    assert made["empty"].shape == (0, 3) and made["numpy"].tolist() == [1, 1]


@pytest.mark.parametrize("workers", [0, 2])
def test_pinned_memory(workers: int) -> None:
    for x, y in data.DataLoader([(1.0, 2), (3.0, 4)], 1, num_workers=workers, pin_memory=True):
        assert x.context == y.context == cpu_pinned(0)


def test_records_are_read_by_processes(tmp_path: Any) -> None:
    from mx_io.recordio import MXIndexedRecordIO

    with MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w") as record:
        for i in range(20):
            record.write_idx(i, f"record {i}".encode())
    dataset = data.RecordFileDataset(tmp_path / "a.rec")
    assert dataset[3] == b"record 3"
    loader = data.DataLoader(dataset, 5, batchify_fn=list, num_workers=2)
    assert [each for batch in loader for each in batch] == [f"record {i}".encode() for i in range(20)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "batch_size must be specified"),
        ({"batch_size": 2, "shuffle": True, "sampler": data.SequentialSampler(2)}, "shuffle must not"),
        ({"batch_size": 2, "batch_sampler": [[0]]}, "must not be specified if batch_sampler"),
        ({"batch_size": 2, "last_batch": "drop"}, "'keep', 'discard', or 'rollover', but got 'drop'"),
        ({"batch_size": 0}, "batch_size: expected 1 or more, got 0"),
        ({"batch_size": nd.ones((3,))}, "batch_size: expected 1 or more, got"),
    ],
)
def test_arguments_that_contradict_each_other(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        data.DataLoader([1, 2], **options)
    with pytest.raises(AssertionError, match="timeout must be positive"):
        data.DataLoader([1, 2], 1, timeout=0)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("way", WAYS)
def test_copies_have_processes_of_their_own(way: dict[str, Any], duplicate: Any) -> None:
    loader = data.DataLoader([1, 2, 3], 2, num_workers=1, **way)
    expected = [batch.asnumpy().tolist() for batch in loader]
    begun = iter(loader)
    next(begun)
    other = duplicate(loader)
    assert [batch.asnumpy().tolist() for batch in other] == expected
    if loader._pool is not None:
        assert other._pool is not loader._pool
    assert [batch.asnumpy().tolist() for batch in begun] == expected[1:]


def test_a_batch_sampler_need_not_know_its_length() -> None:
    class Pairs(data.Sampler):
        def __iter__(self) -> Any:
            return iter([[0, 1], [2]])

    class Unsure(Pairs):
        def __len__(self) -> int:
            return 0

    for sampler in (Pairs(), Unsure()):
        for workers in (0, 1):
            loader = data.DataLoader([1, 2, 3], batch_sampler=sampler, num_workers=workers)
            assert [batch.asnumpy().tolist() for batch in loader] == [[1, 2], [3]]
    with pytest.raises(ArgumentError, match="must not be specified if batch_sampler"):
        data.DataLoader([1, 2, 3], 2, batch_sampler=Pairs())


def test_lists_of_16_bit_numbers() -> None:
    one = nd.ones((1,), dtype="bfloat16").asnumpy()[0]
    (batch,) = data.DataLoader([[one, one]] * 3, 3)
    assert batch.shape == (3, 2) and np.dtype(batch.dtype).name == "bfloat16"


@pytest.mark.parametrize(
    ("sample", "kind"), [({"x": 1}, "dict"), ("text", "str"), (np.str_("text"), "str_"), (None, "NoneType")]
)
@pytest.mark.parametrize("workers", [0, 1])
def test_samples_that_make_no_array(sample: Any, kind: str, workers: int) -> None:
    with pytest.raises(
        DTypeError, match=f"samples: expected NDArrays.*got {kind}; give the DataLoader a batchify_fn"
    ):
        next(iter(data.DataLoader([sample] * 2, 2, num_workers=workers)))


@pytest.mark.parametrize("make", [np.ones, nd.ones, lambda size: [1.0] * size])
@pytest.mark.parametrize("workers", [0, 1])
def test_samples_of_several_shapes_are_named(make: Callable[[int], Any], workers: int) -> None:
    samples = [(make(size), 0) for size in (2, 2, 3)]
    told = re.escape(
        "expected one shape, got (2,) first and (3,) as number 2; make them equal in a transform"
    )
    with pytest.raises(ShapeError, match=told):
        next(iter(data.DataLoader(samples, 3, num_workers=workers)))


def test_data_sets_say_what_is_wrong() -> None:
    with pytest.raises(AssertionError, match=r"array\[0\] has 2, array\[1\] has 3"):
        data.ArrayDataset([1, 2], [1, 2, 3])
    with pytest.raises(AssertionError, match="got none"):
        data.ArrayDataset()
    with pytest.raises(AssertionError, match="got 3 of 3"):
        data.SimpleDataset([1]).shard(3, 3)
    with pytest.raises(TypeError, match=r"expected a gluon.data.Sampler, got list"):
        data.SimpleDataset([1]).sample([0])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="expected a function, got 3"):
        data.SimpleDataset([1]).transform(3)  # type: ignore[arg-type]


class Unsendable:
    def __reduce__(self) -> Any:
        raise TypeError("no pickles")


def test_an_index_that_cannot_be_sent() -> None:
    loader = data.DataLoader(Calls(int), batch_sampler=[[Unsendable()], [1]], num_workers=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no pickles"):
        list(loader)


def test_an_iteration_does_not_go_on_in_a_forked_process() -> None:
    batches = iter(data.DataLoader(list(range(8)), 2, num_workers=1))
    next(batches)
    pid = os.fork()
    if pid == 0:
        try:
            next(batches)
        except WorkerError as error:
            os._exit(0 if "begin a new one" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(list(batches)) == 3


@pytest.mark.long
def test_what_samples_print_is_written() -> None:
    program = """
        from mx_gluon.data import DataLoader, Dataset

        class Loud(Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, i):
                print("sample", i)
                return i

        assert len(list(DataLoader(Loud(), 2, num_workers=1))) == 2
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert sorted(done.stdout.split("\n")) == ["", *(f"sample {i}" for i in range(4))], done.stderr


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_goes_on_from_the_state_of_another(workers: int) -> None:
    def made() -> data.DataLoader:
        samples = data.SimpleDataset(list(range(12))).transform(lambda sample: sample + np.random.uniform())
        return data.DataLoader(samples, 4, shuffle=True, num_workers=workers)

    def iteration(loader: data.DataLoader) -> list[Any]:
        return [batch.asnumpy().tolist() for batch in loader]

    loader, other = made(), made()
    first = iteration(loader)
    state, generator = loader.state_dict(), np.random.get_state()
    expected = iteration(loader)
    other.load_state_dict(state)
    np.random.set_state(generator)
    assert iteration(other) == expected != first


@pytest.mark.parametrize("state", [None, {}, {"position": 1}, {"iterations": "x"}, {"iterations": -1}])
def test_the_state_of_something_else_is_refused_and_changes_nothing(state: Any) -> None:
    loader = data.DataLoader([1, 2, 3], 2)
    with pytest.raises(ArgumentError, match=r"^\[DataLoader\] state: "):
        loader.load_state_dict(state)
    assert loader.state_dict() == {"iterations": 0}


class Whole(Calls):
    """Makes whole batches, of which the seeds are told."""

    def batch(self, indices: list[int], seed: int | None) -> Any:
        return nd.array([100 + i for i in indices]), seed


@pytest.mark.parametrize("way", [{}, {"num_workers": 2, "thread_pool": True}])
def test_whole_batches_of_a_data_set(way: dict[str, Any]) -> None:
    def epoch(loader: data.DataLoader) -> list[Any]:
        return [(array.asnumpy().tolist(), seed) for array, seed in loader]

    loader = data.DataLoader(Whole(lambda i: i), 3, **way)
    np.random.seed(2)
    first = epoch(loader)
    assert [values for values, _ in first] == [[100, 101, 102], [103, 104, 105], [106, 107]]
    seeds = [seed for _, seed in first]
    assert seeds == [None] * 3 if not way else len(set(seeds)) == 3 and None not in seeds
    assert epoch(loader) != first or not way
    samples = data.DataLoader(Whole(lambda i: i), 3, batchify_fn=list, **way)
    assert list(samples) == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_processes_make_whole_batches_of_samples() -> None:
    loader = data.DataLoader(Whole(lambda i: np.float32(i)), 4, num_workers=1)
    assert [batch.asnumpy().tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("way", [{}, {"num_workers": 2, "thread_pool": True}, {"num_workers": 1}])
def test_images_of_the_pipeline(way: dict[str, Any]) -> None:
    class Squares(Source):
        def __len__(self) -> int:
            return 5

        def read(self, positions: Any) -> list[Example]:
            return [Example(np.full((6, 6, 3), i * i, np.uint8), float(i), i) for i in positions]

    samples = ImageSamples(Squares(), data_shape=(3, 4, 4), rand_crop=True)
    loader = data.DataLoader(samples, 2, shuffle=True, **way)
    batches = [(pixels.asnumpy(), labels.asnumpy()) for pixels, labels in loader]
    assert [pixels.shape for pixels, _ in batches] == [(2, 3, 4, 4), (2, 3, 4, 4), (1, 3, 4, 4)]
    assert sorted(label for _, labels in batches for label in labels) == [0, 1, 2, 3, 4]
    assert all((pixels == (labels**2)[:, None, None, None]).all() for pixels, labels in batches)
