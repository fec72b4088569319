# SPDX-License-Identifier: Apache-2.0
"""Outputs and gradients of a symbol against expected ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mx.test_utils.compare import assert_almost_equal, host
from mx.test_utils.surroundings import default_context
from mx.test_utils.tolerance import Tolerance
from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd
from mx_symbol import Symbol

Arrays = Sequence[Any] | Mapping[str, Any]


def named(names: Sequence[str], arrays: Any, what: str) -> dict[str, Any]:
    """Arrays given in order or by name, as a dictionary; surplus arrays given in order are ignored."""
    if isinstance(arrays, Mapping):
        if set(names) != set(arrays):
            raise ArgumentError(f"[{what}] expected arrays for {sorted(names)}, got {sorted(arrays)}")
        return dict(arrays)
    if len(arrays) < len(names):
        raise ArgumentError(f"[{what}] expected {len(names)} arrays ({', '.join(names)}), got {len(arrays)}")
    return dict(zip(names, arrays, strict=False))


def place(value: Any, ctx: Context, dtype: Any = None) -> NDArray:
    """A new array; NDArrays keep their type, others get `dtype`."""
    if isinstance(value, NDArray):
        return value.copyto(ctx)
    values = np.asarray(value)
    kind = values.dtype if dtype is None else dtype
    return nd.array(values, ctx, dtypes.name(dtypes.code(kind)))


def bound(
    sym: Symbol, location: Arrays, aux_states: Arrays | None, ctx: Context, dtype: Any,
    grad_req: Any = "null", initial: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """An executor on copies of the given arrays; `initial` are the gradients' first values."""
    arguments = {
        name: place(value, ctx, dtype)
        for name, value in named(sym.list_arguments(), location, "location").items()
    }
    names = sym.list_auxiliary_states()
    states: dict[str, Any] = {}
    if names:
        given = [] if aux_states is None else aux_states
        states = {n: place(v, ctx, dtype) for n, v in named(names, given, "aux_states").items()}
    grads = {name: place(value, ctx) for name, value in (initial or {}).items()}
    return sym.bind(ctx, args=arguments, args_grad=grads, grad_req=grad_req, aux_states=states)


def simple_forward(sym: Symbol, ctx: Context | None = None, is_train: bool = False, **inputs: Any) -> Any:
    """Outputs as NumPy arrays, a single one alone, for inputs given by name."""
    context = ctx or default_context()
    arrays = {name: place(value, context, np.asarray(host(value)).dtype) for name, value in inputs.items()}
    executor = sym.bind(context, args=arrays)
    outputs = [y.asnumpy() for y in executor.forward(is_train=is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def check_symbolic_forward(
    sym: Symbol, location: Arrays, expected: Arrays, rtol: Tolerance = None, atol: Tolerance = None,
    aux_states: Arrays | None = None, ctx: Context | None = None, equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[NDArray]:  # fmt: skip
    """Checks a symbol's outputs against expected values.

    Parameters
    ----------
    location : list in the order of arguments, or dictionary by name
    expected : list in the order of outputs, or dictionary by name
    dtype : of arguments that are no NDArrays

    Returns
    -------
    list of NDArray
        The outputs.
    """
    names = sym.list_outputs()
    wanted = named(names, expected, "expected")
    executor = bound(sym, location, aux_states, ctx or default_context(), dtype)
    outputs: list[NDArray] = executor.forward(is_train=False)
    for name, output in zip(names, outputs, strict=True):
        labels = f"EXPECTED_{name}", f"FORWARD_{name}"
        assert_almost_equal(wanted[name], output, rtol, atol, labels, equal_nan)
    return outputs


def check_symbolic_backward(
    sym: Symbol, location: Arrays, out_grads: Any, expected: Arrays, rtol: Tolerance = None,
    atol: Tolerance = None, aux_states: Arrays | None = None, grad_req: Any = "write",
    ctx: Context | None = None, grad_stypes: Any = None, equal_nan: bool = False, dtype: Any = np.float32,
) -> dict[str, NDArray]:  # fmt: skip
    """Checks a symbol's gradients against expected values, with any `grad_req`.

    Parameters
    ----------
    out_grads : gradients of the outputs, in order or by name; None for ones
    expected : gradients of the arguments, in order or by name (some may be left out)
    grad_req : "write", "add", "null", one each, or by name

    Returns
    -------
    dict of str to NDArray
        The gradients.
    """
    context = ctx or default_context()
    names = sym.list_arguments()
    wanted = expected if isinstance(expected, Mapping) else dict(zip(names, expected, strict=False))
    requests = _requests(grad_req, names)
    arguments = named(names, location, "location")
    initial = {n: np.random.normal(size=host(arguments[n]).shape).astype(dtype) for n in wanted}
    requests = {name: requests.get(name, "null") if name in wanted else "null" for name in names}
    executor = bound(sym, location, aux_states, context, dtype, requests, initial)
    outputs = executor.forward(is_train=True)
    executor.backward(_heads(sym, outputs, out_grads, context, dtype))
    for name, value in wanted.items():
        if requests[name] == "null":
            continue
        target = host(value) + (initial[name] if requests[name] == "add" else 0)
        labels = f"EXPECTED_{name}", f"BACKWARD_{name}"
        assert_almost_equal(target, executor.grad_dict[name], rtol, atol, labels, equal_nan)
    return {name: executor.grad_dict[name] for name in wanted}


def _requests(grad_req: Any, names: Sequence[str]) -> dict[str, str]:
    if isinstance(grad_req, str):
        return dict.fromkeys(names, grad_req)
    return dict(grad_req) if isinstance(grad_req, Mapping) else dict(zip(names, grad_req, strict=True))


def _heads(sym: Symbol, outputs: Sequence[NDArray], given: Any, ctx: Context, dtype: Any) -> list[NDArray]:
    if given is None:
        return [nd.ones_like(y) for y in outputs]
    values = named(sym.list_outputs(), given, "out_grads")
    return [place(values[name], ctx, dtype) for name in sym.list_outputs()]


def same_symbol_structure(sym1: Symbol, sym2: Symbol) -> bool:
    """Whether two symbols consist of the same operators in the same order; names may differ."""
    first, second = (s.get_internals() for s in (sym1, sym2))
    if len(first.list_outputs()) != len(second.list_outputs()):
        return False
    return [e.node.op for e in first.entries] == [e.node.op for e in second.entries]
