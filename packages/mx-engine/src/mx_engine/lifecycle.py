# SPDX-License-Identifier: Apache-2.0
"""Handling of a process's engines at fork and at exit."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections import Counter
from functools import partial

from mx_core.errors import EngineShutdownError, MXNetError
from mx_core.forks import at_fork
from mx_core.lifecycle import PROGRAM_FAILED, interrupted, raise_after_fork
from mx_core.weak import WeakGroup
from mx_engine._core import Engine
from mx_engine.settings import integer, seconds

#: Seconds that running operations get when the process ends because of Ctrl-C.
INTERRUPTED = 1.0
#: What stands in the description of a failure between its text and where it happened.
_WHERE = " (in operator "


class Keeper:
    """Stops and restarts some engines of the process around forks, and ends them at exit.

    Threads: any may `add`; threads that fork, and the one that ends the process, call the others.
    """

    def __init__(self) -> None:
        self._engines: WeakGroup[Engine] = WeakGroup()
        self._closed: dict[int, list[Engine]] = {}  # by the thread that forks: those that it opens again

    def add(self, engine: Engine) -> None:
        """Takes an engine into care, for as long as it lives."""
        self._engines.add(engine)

    def engines(self) -> list[Engine]:
        """The engines in care that are alive."""
        return list(self._engines)

    def before_fork(self) -> None:
        """Lets the engines finish their work and ends their threads, so that the child inherits
        quiet engines. Pushes of other threads are held back meanwhile. An engine that is still busy
        after `MX_FORK_TIMEOUT` seconds (30), or that runs the operation which forks, is empty in the
        child. Where it was interrupted, it goes on when it is called again."""
        limit = seconds("MX_FORK_TIMEOUT", 30.0)
        while (engine := self._open()) is not None:
            self._mine().append(engine)
            late = f"had not finished {limit:g} s after the fork began"
            try:
                state = engine.before_fork(limit)
            except BaseException as error:  # of a handler of a signal
                raise_after_fork(error)
                state, late = "busy", "had not finished when the fork was interrupted"
            if not _among(engine, self._mine()):  # a handler of a signal forked meanwhile, and opened it
                self._mine().append(engine)
            if state == "busy" and engine.pending:
                print(f"{unfinished_text(engine, late)}; the child starts without them", file=sys.stderr)

    def _mine(self) -> list[Engine]:
        return self._closed.setdefault(threading.get_ident(), [])

    def _open(self) -> Engine | None:
        """One that the calling thread's fork has not closed."""
        return next((engine for engine in self.engines() if not _among(engine, self._mine())), None)

    def after_fork(self, *, child: bool) -> None:
        """Opens the engines again; their threads come back with the next operation. In the child
        there are `MXNET_MP_WORKER_NTHREADS` (1) per CPU device. Where it was interrupted, it goes on when it is
        called again."""
        mine = self._mine()
        while mine:
            engine = mine[-1]
            engine.after_fork()
            if child:
                engine.workers = integer("MXNET_MP_WORKER_NTHREADS", 1)
            mine[:] = [each for each in mine if each is not engine]
        me = threading.get_ident()
        for thread in list(self._closed) if child else [me]:
            if thread != me or not self._closed.get(me):  # a child has no other threads
                self._closed.pop(thread, None)

    def shutdown(self) -> None:
        """Closes the engines to new work, waits for what is pending, reports failures that no wait
        raised.

        Handlers of the exit that were registered before the first import of mx come after this: they
        find the engine open for their own thread, and what they push is finished when the push returns.

        Work that does not end within `MX_SHUTDOWN_TIMEOUT` seconds (10) is given up, so that the
        process ends. Where it ends because of Ctrl-C, or Ctrl-C is pressed meanwhile, only what runs
        already is finished, within a second at most; what has not begun is cancelled.
        """
        limit = seconds("MX_SHUTDOWN_TIMEOUT", 10.0)
        hurry = interrupted()
        _end_daemons_silently()
        engines, self._engines = self.engines(), WeakGroup()
        for engine in engines:
            quiet = False
            if not hurry:
                try:
                    quiet = engine.close(limit)
                except KeyboardInterrupt:
                    hurry = True
            unobserved = engine.unobserved() if hurry else None  # those that the cancellation makes are none
            if hurry:
                quiet = _cancel(engine, min(limit, INTERRUPTED))
            if quiet:
                engine.stop()
                engine.serve_exit()
            else:
                text = unfinished_text(engine, "had not finished at exit; given up")
                print(text, file=sys.stderr)
                engine.notify_shutdown()
            count, texts = _news(*(unobserved or engine.unobserved()))
            if count:
                print(unobserved_text(count, texts), file=sys.stderr)


def _among(engine: Engine, engines: list[Engine]) -> bool:
    return any(each is engine for each in engines)


def _end_daemons_silently() -> None:
    """Daemon threads whose work is refused from now on print nothing, like those that Python itself ends."""
    show = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        refused = isinstance(args.exc_value, EngineShutdownError)
        if not (refused and args.thread is not None and args.thread.daemon):
            show(args)

    threading.excepthook = hook


def _cancel(engine: Engine, limit: float) -> bool:
    """Closes an engine without beginning what is pending; whether what runs has ended in time."""
    waiting = engine.pending - len(engine.running())
    engine.cancel("cancelled: the process was interrupted")
    if waiting > 0:
        print(f"mx: interrupted; {_operations(waiting)} not begun and cancelled", file=sys.stderr)
    end = time.monotonic() + limit
    while True:
        try:
            return engine.close(max(0.0, end - time.monotonic()))
        except KeyboardInterrupt:  # it ends as fast as it can
            continue


def _news(count: int, texts: list[str]) -> tuple[int, list[str]]:
    """Failures that nobody was told of, without those that follow from the program's own, or that it ends with: one
    failure may be that of many operations, such as all that wait for a lost worker."""
    told = _ended_with()
    own = [text for text in texts if PROGRAM_FAILED not in text and text.partition(_WHERE)[0] not in told]
    return count - (len(texts) - len(own)), own


def _ended_with() -> set[str]:
    """The uncaught exception that ends the program, and those that its traceback names: as failures are described."""
    found: set[str] = set()
    waiting: list[BaseException | None] = [getattr(sys, "last_value", None)]
    seen: set[int] = set()
    while waiting:
        error = waiting.pop()
        if error is not None and id(error) not in seen:
            seen.add(id(error))
            waiting += [error.__cause__, None if error.__suppress_context__ else error.__context__]
            if isinstance(error, MXNetError):
                found.add(f"{type(error).__name__}: {error}".partition(_WHERE)[0])
    return found


def _operations(count: int) -> str:
    return f"{count} operation{'s' if count > 1 else ''}"


def unfinished_text(engine: Engine, what: str) -> str:
    """The message about operations that do not end."""
    running = engine.running()
    shown = ", ".join(running[:3]) + (f" and {len(running) - 3} more" if len(running) > 3 else "")
    return f"mx: {_operations(engine.pending)} {what}" + (f"; running: {shown}" if running else "")


def unobserved_text(count: int, texts: list[str], limit: int = 5) -> str:
    """The message at exit about failures that no wait has raised.

    Parameters
    ----------
    count : int
        Of failures, of which some may have no text.
    texts : list of str
    limit : int
        Different texts that are shown.
    """
    subject = "1 failure was" if count == 1 else f"{count} failures were"
    lines = [f"mx: {subject} never observed:"]
    found = list(Counter(texts).items())
    lines += [f"  {f'{times} times: ' if times > 1 else ''}{text}" for text, times in found[:limit]]
    more, unknown = sum(times for _, times in found[limit:]), count - len(texts)
    if more:
        lines.append(f"  and {more} more")
    if unknown:
        lines.append(
            f"  {'and ' if texts else ''}{unknown} whose texts are not kept: they came after many others"
        )
    return "\n".join(lines)


#: Engines of the plug-in: the hooks say when to act, users before the parts that they use.
by_hooks = Keeper()

_by_interpreter: Keeper | None = None


def by_interpreter() -> Keeper:
    """The keeper of engines that were made directly: it listens to the interpreter itself."""
    global _by_interpreter
    if _by_interpreter is None:
        keeper = _by_interpreter = Keeper()
        atexit.register(keeper.shutdown)
        at_fork(
            before=keeper.before_fork,
            after_in_parent=partial(keeper.after_fork, child=False),
            after_in_child=partial(keeper.after_fork, child=True),
        )
    return _by_interpreter
