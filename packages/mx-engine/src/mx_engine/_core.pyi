# SPDX-License-Identifier: Apache-2.0
"""The native engine."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

class _Context(Protocol):
    @property
    def device_typeid(self) -> int: ...
    @property
    def device_id(self) -> int: ...

class Variable:
    """What operations read or mutate; made by `Engine.new_variable`.

    It owns no data. The operations that use it agree on what it stands for. It is deleted with
    its last Python reference, behind everything pushed on it.

    Threads: any.
    """

class Completion:
    """What an asynchronous operation gets, to call when it has ended. Threads: any; it is called once."""

    def __call__(self, error: BaseException | None = None) -> None:
        """Ends the operation, with `error` if it failed. From any thread, exactly once.

        What waits for the operation goes on when its function has returned as well. An operation
        whose completion is dropped uncalled fails.

        Raises
        ------
        MXNetError
            It was called before.
        """

def set_bulk_size(capsule: Any, size: int) -> int:
    """See `mx_engine.bulking.set_bulk_size`; for the engine behind `capsule`."""

class Recorder:
    """Keeps the operations that an engine reports as finished. Threads: any."""

    def __init__(self, capacity: int) -> None:
        """Keeps at most `capacity` operations; those that come later are only counted."""
    def attach(self, capsule: Any) -> None:
        """Listens to the engine behind `capsule`, and to no other one."""
    def detach(self) -> None:
        """Stops listening; waits for an operation that is being recorded."""
    def events(self) -> list[tuple[str, int, int, int, int, int, int, bool, str | None]]:
        """In the order they began: name, device type, device number, number of the executing
        thread, when pushed, started, finished (ns of `time.monotonic_ns`), whether it failed, and of
        a part of an operation its label."""
    def clear(self) -> None:
        """Forgets the operations and how many were not kept."""
    @property
    def attached(self) -> bool: ...
    @property
    def dropped(self) -> int:
        """How many were not kept."""

class Engine:
    """Runs functions asynchronously, ordered by the variables they read and mutate.

    Of two operations of which one mutates a common variable, the one pushed first runs first;
    readers run together. All methods may be called from any thread; those that block release the
    GIL and can be interrupted by Ctrl-C.

    Threads: any.
    """

    def __init__(
        self,
        name: str,
        *,
        naive: bool = False,
        per_device: bool = True,
        debug: bool = False,
        sticky: bool = False,
        workers: int = 1,
        priority_workers: int = 4,
        copy_workers: int = 2,
        python_workers: int = 1,
    ) -> None:
        """Use `mx_engine.create`, which also handles forks and the end of the process."""

    @property
    def capsule(self) -> Any:
        """The C table (`mx.engine.v1`); the capsule keeps the engine alive."""
    @property
    def name(self) -> str:
        """What it was called when it was made: of the process's engine its type, such as `NaiveEngine`."""
    @property
    def is_naive(self) -> bool:
        """Whether everything runs at the push."""
    @property
    def pending(self) -> int:
        """Operations not yet finished."""
    @property
    def workers(self) -> int:
        """Compute threads per CPU device; 0 for a naive engine, which ignores assignments."""
    @workers.setter
    def workers(self, n: int) -> None: ...
    @property
    def num_omp_threads_per_worker(self) -> int:
        """Threads of an OpenMP parallel region inside an operation, on each of the engine's threads.

        Assigning changes it from the next operation on; 0 leaves it to the runtime. Kernels that
        choose their number of threads themselves, as those of mx do, are not concerned.
        """
    @num_omp_threads_per_worker.setter
    def num_omp_threads_per_worker(self, n: int) -> None: ...
    def attach_device(self, capsule: Any) -> None:
        """Attaches an accelerator, so that operations on its contexts can be pushed.

        They are launched, then done: an operation of the same device is launched as soon as those
        before it on its variables are; one of the host, a wait and a deletion come when they are
        done. Attaching the same table again does nothing.

        Parameters
        ----------
        capsule : capsule
            The device's C table (`mx.device.v1`), kept for as long as the engine lives.

        Raises
        ------
        ArgumentError
            The type is the host's, or another table is attached for it.
        AbiError
            The table is of another version of the interface.
        """
    def new_variable(self) -> Variable:
        """A variable of this engine, which nothing uses yet."""
    def delete_variable(self, variable: Variable, deleter: Callable[[], object] | None = None) -> None:
        """Deletes a variable behind everything pushed on it, then calls `deleter`. Never blocks.

        Raises
        ------
        ArgumentError
            It was deleted before, or belongs to another engine.
        """
    def variable_version(self, variable: Variable) -> int:
        """Finished writes of the variable."""
    def variable_ready(self, variable: Variable, for_write: bool = False) -> bool:
        """Whether nothing pushed so far still has to write (`for_write`: or read) it."""
    def is_reading(self, variable: Variable) -> bool:
        """Whether the operation that runs on this thread reads the variable.

        False outside of operations.
        """
    def variable_failure(self, variable: Variable) -> BaseException | None:
        """The exception because of which the variable was not written, also after a wait raised
        it; None once a later write has succeeded. Does not block."""
    def push(
        self,
        fn: Callable[[], object],
        reads: Iterable[Variable] = (),
        writes: Iterable[Variable] = (),
        *,
        context: _Context | None = None,
        priority: int = 0,
        name: str | None = None,
        property: str = "normal",
    ) -> None:
        """Pushes `fn`, which is called when all earlier operations on its variables have finished.

        Parameters
        ----------
        fn : callable
            It may push and wait. What it raises is raised by the waits for what it should have
            written; operations that would use that are skipped.
        reads, writes : iterables of Variable
            No variable twice. One that is read and written belongs to `writes`.
        context : Context, optional
            Default `cpu(0)`.
        priority : int
            Of the operations that are ready, larger ones run earlier.
        name : str, optional
            For messages and profiles; default the name of `fn`.
        property : str
            `normal`; `no_skip`: is called even when what it uses failed; `async`,
            `cpu_prioritized`, `device_prioritized`, `copy_from_device`, `copy_to_device`.

        Raises
        ------
        ArgumentError
            A variable is listed twice, was deleted, or belongs to another engine.
        EngineShutdownError
            The engine was shut down.
        Exception
            A naive engine raises what `fn` raises.
        """
    def push_async(
        self,
        fn: Callable[[Completion], object],
        reads: Iterable[Variable] = (),
        writes: Iterable[Variable] = (),
        *,
        context: _Context | None = None,
        priority: int = 0,
        name: str | None = None,
        property: str = "async",
    ) -> None:
        """As `push`, but the operation ends when the `Completion` given to `fn` is called."""
    def wait_for_variable(
        self, variable: Variable, *, for_write: bool = False, timeout: float | None = None
    ) -> bool:
        """Blocks until the writes pushed so far have finished (`for_write`: the reads, too).

        Parameters
        ----------
        timeout : float, optional
            Seconds.

        Returns
        -------
        bool
            False when the time ran out.

        Raises
        ------
        MXNetError
            Called inside an operation that uses the variable: it would wait for itself.
        Exception
            What the operation raised because of which the variable was not written; once for all
            variables it concerns.
        """
    def wait_for_all(self, *, timeout: float | None = None) -> bool:
        """Blocks until nothing is pending; otherwise as `wait_for_variable`.

        Raises
        ------
        MXNetError
            Called inside an operation.
        Exception
            The first failure that no wait has raised; all others count as seen.
        """
    def drain(self, timeout: float | None) -> bool:
        """Blocks until nothing is pending, at most `timeout` seconds; raises no failures."""
    def running(self) -> list[str]:
        """Operations that run now on the engine's threads or on accelerators, each with the line
        that pushed it."""
    def stop(self, timeout: float | None = None) -> bool:
        """Waits for pending work and ends the threads; the next push starts them again.

        Parameters
        ----------
        timeout : float, optional
            Seconds.

        Returns
        -------
        bool
            False when something was still pending after that time (`running` says what), when it is
            called by one of the engine's own threads, or after the engine was shut down.
        """
    def close(self, timeout: float | None) -> bool:
        """Refuses pushes from outside of operations from now on, then waits at most `timeout` seconds
        for what is pending, pushes of running operations included; False when the time ran out."""
    def cancel(self, why: str) -> None:
        """Skips from now on what has not begun, no-skip operations excepted. Waits for what was to be
        written raise `EngineShutdownError(why)`. There is no way back; for the end of a process."""
    def serve_exit(self) -> None:
        """Once closed and quiet: the calling thread, which runs the handlers of the exit, may push again;
        what it pushes has finished when the push returns."""
    def notify_shutdown(self) -> None:
        """Closes the engine for good: pushes are refused, what is queued does not run."""
    def unobserved(self) -> tuple[int, list[str]]:
        """How many failures no wait has raised, and the texts of the first of them."""
    def before_fork(self, timeout: float) -> str:
        """Drains and stops the engine and closes it until `after_fork`: `quiet`. `busy` when
        operations were still pending after `timeout` seconds, `inside` when the caller is inside one:
        the child's engine then starts without them. What a handler of a signal raises ends the wait
        and is raised when the engine is closed."""
    def after_fork(self) -> None:
        """Opens the engine again, in the parent and in the child."""

def run_empty(capsule: Any, graph: str, operations: int, *, inline: bool = False) -> float:
    """Seconds that empty native operations take an engine's table, construction included; `graph`
    is one of `mx_engine.measure.NATIVE`."""

def hand_over(capsule: Any, rounds: int) -> float:
    """Seconds from the push of an empty native operation to the return of the wait for it."""
