# SPDX-License-Identifier: Apache-2.0
"""One symbol on several contexts and types; optimizers against each other; speed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mx.test_utils.compare import assert_almost_equal
from mx.test_utils.surroundings import default_context
from mx.test_utils.tolerance import Tolerance
from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd, waitall
from mx_symbol import Symbol

_PRECISION = ("float64", "float32", "float16")


def check_consistency(
    sym: Symbol | Sequence[Symbol], ctx_list: Sequence[Mapping[str, Any]], scale: float = 1.0,
    grad_req: Any = "write", arg_params: Mapping[str, Any] | None = None,
    aux_params: Mapping[str, Any] | None = None, rtol: Tolerance = None, atol: Tolerance = None,
    raise_on_err: bool = True, ground_truth: Mapping[str, Any] | None = None, equal_nan: bool = False,
    use_uniform: bool = False, rand_type: Any = np.float64,
) -> dict[str, NDArray]:  # fmt: skip
    """Checks that a symbol computes the same on every context and in every element type given.

    Parameters
    ----------
    ctx_list : per run `{"ctx": mx.cpu(), "data": (2, 3), "type_dict": {"data": np.float32}}`
    scale : standard deviation (or half range with `use_uniform`) of the random arguments
    arg_params, aux_params : values instead of random ones (zero for states)
    ground_truth : outputs and gradients by name instead of those of the most precise run
    raise_on_err : whether to fail, or to print what differs

    Returns
    -------
    dict of str to NDArray
        Outputs and gradients everything was compared with.
    """
    if len(ctx_list) < 2 and ground_truth is None:
        raise ArgumentError("[check_consistency] expected at least two runs to compare")
    symbols = [sym] * len(ctx_list) if isinstance(sym, Symbol) else list(sym)
    runs = [one.simple_bind(grad_req=grad_req, **place) for one, place in zip(symbols, ctx_list, strict=True)]
    values = dict(arg_params or {})
    for name, array in runs[0].arg_dict.items():
        if name not in values:
            draw = np.random.uniform(-scale, scale, array.shape) if use_uniform else (
                np.random.normal(size=array.shape) * scale)  # fmt: skip
            values[name] = draw.astype(rand_type)
    truth = None if ground_truth is None else dict(ground_truth)
    trained = grad_req != "null"
    results = [_results(run, values, aux_params or {}, trained) for run in runs]
    order = sorted(range(len(runs)), key=lambda i: _PRECISION.index(_coarsest(results[i])))
    if truth is None:
        truth = results[order[0]]
    for i, result in enumerate(results):
        names = f"TRUTH of {ctx_list[order[0]]['ctx']}", f"run {i} on {ctx_list[i]['ctx']}"
        for name, value in result.items():
            if truth is result or name not in truth:
                continue
            try:
                labels = f"{name}: {names[0]}", f"{name}: {names[1]}"
                assert_almost_equal(truth[name], value, rtol, atol, labels, equal_nan)
            except AssertionError as error:
                if raise_on_err:
                    raise
                print(error)
    return truth


def _coarsest(result: Mapping[str, NDArray]) -> str:
    names = [np.dtype(value.dtype).name for value in result.values()]
    return max((n for n in names if n in _PRECISION), key=_PRECISION.index, default="float32")


def _results(
    run: Any, values: Mapping[str, Any], states: Mapping[str, Any], trained: bool
) -> dict[str, NDArray]:
    for name, array in run.arg_dict.items():
        array[:] = np.asarray(values[name]).astype(array.dtype)
    for name, array in run.aux_dict.items():
        array[:] = states.get(name, 0)
    for array in run.grad_dict.values():
        if array is not None:
            array[:] = 0
    outputs = run.forward(is_train=trained)
    found = dict(zip(run.output_dict, outputs, strict=True))
    if trained:
        run.backward(outputs)
        found |= {name: grad for name, grad in run.grad_dict.items() if grad is not None}
    return {name: value.copy() for name, value in found.items()}


def check_speed(
    sym: Symbol, location: Mapping[str, Any] | None = None, ctx: Context | None = None, N: int = 20,
    grad_req: str | None = None, typ: str = "whole", **kwargs: Any,
) -> float:  # fmt: skip
    """Seconds per run.

    Parameters
    ----------
    location : arguments by name; random ones of the shapes in `kwargs` by default
    typ : "whole" is forward and backward, "forward" forward alone
    """
    if typ not in ("whole", "forward"):
        raise ArgumentError(f"[check_speed] typ: expected 'whole' or 'forward', got {typ!r}")
    whole = typ == "whole"
    shapes = kwargs if location is None else {name: np.shape(value) for name, value in location.items()}
    request = ("write" if whole else "null") if grad_req is None else grad_req
    executor = sym.simple_bind(ctx or default_context(), grad_req=request, **shapes)
    for name, array in executor.arg_dict.items():
        array[:] = np.random.normal(size=array.shape) if location is None else location[name]
    heads = [nd.ones_like(output) for output in executor.forward(is_train=whole)]

    def once() -> None:
        executor.forward(is_train=whole)
        if whole:
            executor.backward(heads)

    once()
    waitall()
    begin = time.perf_counter()
    for _ in range(N):
        once()
    waitall()
    return (time.perf_counter() - begin) / N


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Tolerance = None, atol: Tolerance = None) -> None:
    """Checks that two (nested) tuples of arrays agree."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for first, second in zip(t1, t2, strict=True):
            compare_ndarray_tuple(first, second, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def compare_optimizer(
    opt1: Any, opt2: Any, shape: Any, dtype: Any, w_stype: str = "default", g_stype: str = "default",
    rtol: float = 1e-4, atol: float = 1e-5, compare_states: bool = True, ntensors: int = 1,
) -> None:  # fmt: skip
    """Checks that one update by each of two optimizers leads to the same weights (and states).

    Parameters
    ----------
    shape : of the weight; a list of them with `ntensors` above 1, which are updated at once
    """
    if (w_stype, g_stype) != ("default", "default"):
        raise ArgumentError(f"[compare_optimizer] expected 'default' storage, got {w_stype!r}, {g_stype!r}")
    shapes = list(shape) if isinstance(shape, list) else [shape] * ntensors
    kind = np.dtype(dtype).name
    weights = [nd.array(np.random.uniform(-1, 1, one), dtype=kind) for one in shapes]
    grads = [nd.array(np.random.uniform(-1, 1, one), dtype=kind) for one in shapes]
    ends = []
    for optimizer in (opt1, opt2):
        own = [weight.copy() for weight in weights]
        states = [optimizer.create_state_multi_precision(i, weight) for i, weight in enumerate(own)]
        for i, (weight, grad, state) in enumerate(zip(own, grads, states, strict=True)):
            optimizer.update_multi_precision(i, weight, grad.copy(), state)
        ends.append((tuple(own), tuple(states)))
    if compare_states:
        compare_ndarray_tuple(ends[0][1], ends[1][1], rtol, atol)
    compare_ndarray_tuple(ends[0][0], ends[1][0], rtol, atol)
