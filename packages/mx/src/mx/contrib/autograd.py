# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib.autograd`: the first interface of automatic differentiation, before `mx.autograd`."""

from __future__ import annotations

import functools
import sys as _sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from mx.absent import explain as _explain
from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd
from mx_ndarray import autograd as _autograd

__all__ = [
    "TrainingStateScope", "backward", "compute_gradient", "grad", "grad_and_loss", "mark_variables", "set_is_training",
    "test_section", "train_section",
]  # fmt: skip


def set_is_training(is_train: bool) -> bool:
    """Switches training mode and recording on or off, for the calling thread.

    Returns
    -------
    bool
        Whether training mode was on before.
    """
    before = _autograd.set_training(is_train)
    _autograd.set_recording(is_train)
    return before


class TrainingStateScope(AbstractContextManager["TrainingStateScope"]):
    """A block in which training mode and recording are on, or off. Threads: one.

    Parameters
    ----------
    enter_state : bool
    """

    def __init__(self, enter_state: bool) -> None:
        self._enter_state = enter_state
        self._before: tuple[bool, bool] = (False, False)

    def __enter__(self) -> TrainingStateScope:
        self._before = (_autograd.set_training(self._enter_state), _autograd.set_recording(self._enter_state))
        return self

    def __exit__(self, *_: object) -> None:
        training, recording = self._before
        _autograd.set_training(training)
        _autograd.set_recording(recording)


def train_section() -> TrainingStateScope:
    """A block that is recorded, in training mode."""
    return TrainingStateScope(True)


def test_section() -> TrainingStateScope:
    """A block within `train_section` that is not recorded, in prediction mode."""
    return TrainingStateScope(False)


test_section.__test__ = False  # type: ignore[attr-defined]  # not a test, whatever pytest thinks


def mark_variables(
    variables: Sequence[NDArray], gradients: Sequence[NDArray], grad_reqs: str | Sequence[str] = "write"
) -> None:
    """Gives arrays the arrays that their gradients are written to.

    Parameters
    ----------
    variables, gradients : sequence of NDArray
    grad_reqs : {"write", "add", "null"}, or one for each
    """
    _autograd.mark_variables(variables, gradients, grad_reqs)


def backward(
    outputs: Sequence[NDArray], out_grads: Sequence[NDArray | None] | None = None, retain_graph: bool = False
) -> None:
    """Computes the gradients of outputs with respect to marked variables; asynchronous.

    Parameters
    ----------
    outputs : sequence of NDArray
    out_grads : sequence of NDArray or None, optional
        Head gradients; ones without.
    retain_graph : bool
        Whether the record is kept for another backward.
    """
    _autograd.backward(outputs, out_grads, retain_graph)


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """`backward` with head gradients of ones. The gradients are in the arrays of the variables; nothing is returned."""
    backward(outputs)


def grad_and_loss(
    func: Callable[..., Any], argnum: int | Sequence[int] | None = None
) -> Callable[..., tuple[list[NDArray], Any]]:
    """A function that computes the gradients of a function, and its value.

    Parameters
    ----------
    func : callable(*arrays)
        Gives an array, or a list of arrays whose sum is differentiated.
    argnum : int or sequence of int, optional
        Positions of the arguments for which there are gradients; all without.

    Returns
    -------
    callable
        From arrays to (list of gradients, what `func` gives). It raises ArgumentError for arguments that are no
        arrays.
    """

    @functools.wraps(func)
    def wrapped(*args: Any) -> tuple[list[NDArray], Any]:
        places = range(len(args)) if argnum is None else [argnum] if isinstance(argnum, int) else argnum
        variables = [args[place] for place in places]
        for place, variable in zip(places, variables, strict=True):
            if not isinstance(variable, NDArray):
                raise ArgumentError(
                    f"[grad_and_loss] argument {place}: expected an NDArray, got {variable!r}"
                )
        gradients = [nd.zeros_like(variable) for variable in variables]
        mark_variables(variables, gradients)
        with train_section():
            outputs = func(*args)
        backward([outputs] if isinstance(outputs, NDArray) else outputs)
        return gradients, outputs

    return wrapped


def grad(func: Callable[..., Any], argnum: int | Sequence[int] | None = None) -> Callable[..., list[NDArray]]:
    """As `grad_and_loss`, with the gradients alone."""
    both = grad_and_loss(func, argnum)

    @functools.wraps(func)
    def wrapped(*args: Any) -> list[NDArray]:
        return both(*args)[0]

    return wrapped


_explain(_sys.modules[__name__], [__name__])
