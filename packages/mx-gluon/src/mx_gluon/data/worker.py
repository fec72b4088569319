# SPDX-License-Identifier: Apache-2.0
"""What a loader's process does: makes one batch after the other, until nobody asks for more."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from numpy import random as np_random

from mx_gluon.data.batches import Message, pickled, receive
from mx_ndarray import random as mx_random


class Task(NamedTuple):
    """A batch to make.

    Attributes
    ----------
    samples : their indices
    seed : of the random numbers that transforms draw, so that they depend on no process
    """

    samples: Sequence[Any]
    seed: int


class Failure(NamedTuple):
    """Why a batch was not made.

    Attributes
    ----------
    error : the pickled exception, or None if it cannot be
    text : the traceback
    """

    error: bytes | None
    text: str


def run(
    own: Connection,
    others: Sequence[Connection],
    dataset: Any,
    batchify_fn: Callable[[Sequence[Any]], Any],
) -> None:
    """Makes batches until the other end is closed.

    Parameters
    ----------
    others : sequence of Connection
        Ends of the loader and of other processes, which this one has got by being forked.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the loader ends its processes
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:
        other.close()
    try:
        while True:
            message = _answer(receive(own), dataset, batchify_fn)
            _flush()  # it may be ended as soon as its last batch is taken
            message.send(own)
    except (EOFError, OSError):
        pass  # the loader is gone
    finally:
        os._exit(0)  # what the program registered for its own exit is not this process's


def _flush() -> None:
    """Writes what samples have printed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # none, or closed
            stream.flush()


def _answer(task: Task, dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any]) -> Message:
    try:
        random.seed(task.seed)
        np_random.seed(task.seed)
        mx_random.seed(task.seed)
        return Message(batchify_fn([dataset[i] for i in task.samples]))
    except BaseException as error:
        return Message(Failure(pickled(error), traceback.format_exc()))
