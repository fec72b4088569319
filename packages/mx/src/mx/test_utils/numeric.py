# SPDX-License-Identifier: Apache-2.0
"""Gradients against differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mx.test_utils.compare import assert_almost_equal, host
from mx.test_utils.surroundings import default_context
from mx.test_utils.symbolic import Arrays, bound, named
from mx.test_utils.tolerance import Tolerance, default_numeric_eps
from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_symbol import Symbol, sym

_PROJECTION = "__random_proj"


def numeric_grad(
    executor: Any, location: Mapping[str, Any], aux_states: Mapping[str, Any] | None = None,
    eps: float = 1e-4, use_forward_train: bool = True, dtype: Any = np.float32,
) -> dict[str, np.ndarray[Any, Any]]:  # fmt: skip
    """Central differences of the sum of an executor's first output.

    Parameters
    ----------
    location : arguments by name; a gradient is computed for each of floating type
    aux_states : put back before every run
    eps : distance of the two points

    Returns
    -------
    dict of str to ndarray
    """
    values = {name: host(value).astype(dtype) for name, value in location.items()}
    states = {name: host(value) for name, value in (aux_states or {}).items()}
    for name, value in values.items():
        executor.arg_dict[name][:] = value

    def elements() -> Any:
        for name, value in states.items():
            executor.aux_dict[name][:] = value
        return executor.forward(is_train=use_forward_train)[0].asnumpy().astype(np.float64)

    grads = {}
    for name, value in values.items():
        grad = grads[name] = np.zeros_like(value)
        moved = value.copy()
        for place in np.ndindex(value.shape):
            ends = []
            for sign in (0.5, -0.5):
                moved[place] = value[place] + sign * eps
                executor.arg_dict[name][:] = moved
                ends.append(elements())
            moved[place] = value[place]
            grad[place] = (ends[0] - ends[1]).sum() / eps
        executor.arg_dict[name][:] = value
    return grads


def check_numeric_gradient(
    sym: Symbol, location: Arrays, aux_states: Arrays | None = None, numeric_eps: Any = None,
    rtol: Tolerance = None, atol: Tolerance = None, grad_nodes: Any = None, use_forward_train: bool = True,
    ctx: Context | None = None, grad_stype_dict: Any = None, dtype: Any = np.float32,
) -> None:  # fmt: skip
    """Checks a symbol's gradients against differences, along a random direction of its outputs.

    Parameters
    ----------
    location : list in the order of arguments, or dictionary by name
    numeric_eps : distance of the two points; by default 2⁻⁶, 2⁻⁹ or 2⁻¹⁴ by type
    grad_nodes : names of the arguments to check, or a dictionary from names to requests; all by default
    use_forward_train : whether forward runs in training mode
    dtype : float16, float32 or float64
    """
    if np.dtype(dtype) not in default_numeric_eps():
        raise ArgumentError(f"[check_numeric_gradient] dtype: expected a floating type, got {dtype!r}")
    eps = default_numeric_eps()[np.dtype(dtype)] if numeric_eps is None else numeric_eps
    names = sym.list_arguments()
    arguments = {k: host(v).astype(dtype) for k, v in named(names, location, "location").items()}
    requests = _requests(grad_nodes, names)
    states = named(sym.list_auxiliary_states(), aux_states or [], "aux_states")
    projected, shapes = _projected(sym, {k: v.shape for k, v in arguments.items()})
    directions = {k: (np.random.rand(*shape) + 0.1).astype(dtype) for k, shape in shapes.items()}
    arguments |= directions
    initial = {k: np.random.normal(0, 0.01, arguments[k].shape).astype(dtype) for k in requests}
    every = dict.fromkeys(projected.list_arguments(), "null") | requests
    order = {k: arguments[k] for k in projected.list_arguments()}
    executor = bound(projected, order, states, ctx or default_context(), dtype, every, initial)
    executor.forward(is_train=True)
    executor.backward()
    grads = {k: executor.grad_dict[k].asnumpy() for k in requests if requests[k] != "null"}
    varied = {k: v for k, v in arguments.items() if k in requests}
    numeric = numeric_grad(executor, varied, states, eps, use_forward_train, dtype)
    for name, grad in grads.items():
        expected = numeric[name] + (initial[name] if requests[name] == "add" else 0)
        assert_almost_equal(expected, grad, rtol, atol, (f"NUMERICAL_{name}", f"BACKWARD_{name}"))


def _requests(grad_nodes: Any, names: Sequence[str]) -> dict[str, str]:
    if isinstance(grad_nodes, Mapping):
        return dict(grad_nodes)
    return dict.fromkeys(names if grad_nodes is None else grad_nodes, "write")


def _projected(symbol: Symbol, shapes: Mapping[str, Any]) -> tuple[Symbol, dict[str, tuple[int, ...]]]:
    """All elements of the outputs, each weighted by an argument of its own, as a loss.

    They are not summed: the differences of elements are far more precise than those of their sum.
    """
    _, found, _ = symbol.infer_shape(**shapes)
    outputs = [symbol[i] for i in range(len(symbol.list_outputs()))]
    weights = {f"{_PROJECTION}{i or ''}": tuple(shape) for i, shape in enumerate(found or ())}
    parts = [output * sym.Variable(name) for output, name in zip(outputs, weights, strict=True)]
    if len(parts) > 1:
        parts = [sym.concat(*[sym.reshape(part, shape=(-1,)) for part in parts], dim=0)]
    return sym.MakeLoss(parts[0]), weights
