# SPDX-License-Identifier: Apache-2.0
"""Loops and branches over arrays, run as Python runs them; autograd records what they call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_ndarray.creation import zeros
from mx_ndarray.ndarray import NDArray
from mx_ndarray.operator_functions import function

Arrays = NDArray | Sequence[NDArray]


def foreach(body: Callable[[Any, Any], tuple[Any, Any]], data: Arrays, init_states: Any) -> tuple[Any, Any]:
    """Calls `body(slice, states) -> (outputs, states)` for every slice of `data` along its first axis.

    Parameters
    ----------
    data : NDArray or list of NDArray
        A list gives the body a list of slices.
    init_states : NDArray or list of NDArray
        States of the first call.

    Returns
    -------
    outputs, states
        Outputs of all calls stacked along a new first axis, an array or a list as the body gave
        them, and the states of the last call.

    Raises
    ------
    ArgumentError  the arrays differ in length, or have none
    """
    arrays = _listed(data)
    lengths = {array.shape[0] for array in arrays}
    if len(lengths) != 1 or 0 in lengths:
        raise ArgumentError(
            f"[foreach] data: expected arrays of one length from 1, got {[a.shape for a in arrays]}"
        )
    states = init_states
    rows: list[list[NDArray]] = []
    single = False
    for i in range(lengths.pop()):
        slices = [_slice(array, i) for array in arrays]
        outputs, states = body(slices[0] if isinstance(data, NDArray) else slices, states)
        single = isinstance(outputs, NDArray)
        rows.append(_listed(outputs))
    stacked = _stacked(rows)
    return (stacked[0] if single else stacked), states


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., tuple[Any, Any]],
    loop_vars: Any,
    max_iterations: int | None = None,
) -> tuple[Any, Any]:
    """Calls `func(*loop_vars) -> (outputs, loop_vars)` while `cond(*loop_vars)` holds.

    Parameters
    ----------
    max_iterations : int
        The loop ends here at the latest; the outputs have this length, zero after the last call.

    Returns
    -------
    outputs, loop_vars
        Outputs stacked, an array or a list as `func` returns them, and the variables, an array or a
        list as they were given. The list of outputs is empty when `func` was not called.

    Raises
    ------
    ArgumentError  there is no limit, or the loop variables change in number
    """
    if max_iterations is None or max_iterations < 0:
        raise ArgumentError(f"[while_loop] max_iterations: expected a limit from 0, got {max_iterations}")
    state = _listed(loop_vars)
    if not state:
        raise ArgumentError("[while_loop] loop_vars: expected at least one array, got none")
    rows: list[list[NDArray]] = []
    single = False
    while len(rows) < max_iterations and bool(cond(*state)):
        outputs, after = func(*state)
        following = _listed(after)
        if len(following) != len(state):
            raise ArgumentError(
                f"[while_loop] expected {len(state)} loop variables from func, got {len(following)}"
            )
        state = following
        single = isinstance(outputs, NDArray)
        rows.append(_listed(outputs))
    stacked = _stacked(rows, max_iterations)
    outputs = stacked[0] if single else stacked
    return outputs, (state[0] if isinstance(loop_vars, NDArray) else state)


def cond(pred: NDArray, then_func: Callable[[], Any], else_func: Callable[[], Any]) -> Any:
    """What `then_func()` returns if `pred` is not 0, else what `else_func()` returns. Waits for `pred`."""
    return then_func() if bool(pred) else else_func()


def isnan(data: NDArray) -> NDArray:
    """1 where `data` is no number, else 0."""
    return data != data


def isinf(data: NDArray) -> NDArray:
    """1 where `data` is infinite, else 0."""
    return data.abs() == float("inf")


def isfinite(data: NDArray) -> NDArray:
    """1 where `data` is a finite number, else 0."""
    return (data == data) * (data.abs() != float("inf"))


def _listed(arrays: Any) -> list[NDArray]:
    if arrays is None:
        return []
    return [arrays] if isinstance(arrays, NDArray) else list(arrays)


def _slice(array: NDArray, i: int) -> NDArray:
    part = array[i]
    return part if array.ndim == 1 or part.shape == array.shape[1:] else part.reshape(array.shape[1:])


def _stacked(rows: list[list[NDArray]], length: int = 0) -> list[NDArray]:
    """The columns of `rows` along a new axis, which zeros fill up to `length`."""
    columns = [function("stack")(*column, axis=0) for column in zip(*rows, strict=True)]
    missing = length - len(rows)
    if missing <= 0:
        return columns
    return [
        function("concat")(column, zeros((missing, *column.shape[1:]), column.context, column.dtype), dim=0)
        for column in columns
    ]
