# SPDX-License-Identifier: Apache-2.0
"""Calls every operator with random arguments; whatever comes, it must be a result or an MXNetError.

python tests/fuzz/fuzz_operators.py 20000            # calls, in two worker processes
python tests/fuzz/fuzz_operators.py 20000 --sanitize FOLDER  # the last tenth under AddressSanitizer, built there
python tests/fuzz/fuzz_operators.py --show 1234      # one call again, in this process
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import sys
from typing import Any

import numpy as np
import workers
from workers import Outcome, detail_of, resident

ARRAYS = 1 << 30  # bytes, of a worker's arrays: nobody waits for larger ones
RESIDENT = 2 << 30  # bytes; a call that takes more at once is reported


# ---- one call -------------------------------------------------------------------------------------


def array(mx: Any, rng: np.random.Generator, shape: tuple[int, ...], dtype: str, contents: str) -> Any:
    """An NDArray with contents of some kind."""
    if math.prod(max(extent, 1) for extent in shape) > 1 << 59:  # NumPy makes none of these, even if empty
        return mx.nd.zeros(shape, dtype=dtype)
    values = {
        "small": lambda: rng.normal(size=shape),
        "index": lambda: rng.integers(0, 4, size=shape),
        "zero": lambda: np.zeros(shape),
        "nan": lambda: np.where(rng.random(shape) < 0.5, np.nan, rng.normal(size=shape)),
        "inf": lambda: np.where(rng.random(shape) < 0.5, rng.choice([-np.inf, np.inf]), 1.0),
        "huge": lambda: rng.choice([2.0**31, 2.0**63, -(2.0**63), 1e30, 1e300], size=shape),
        "negative": lambda: -rng.integers(1, 9, size=shape),
        "fraction": lambda: rng.random(shape),
    }[contents]()
    with np.errstate(all="ignore"):
        values = np.asarray(values)
        if dtype != "bfloat16":
            return mx.nd.array(values.astype(dtype), dtype=dtype)
        return mx.nd.array(values.astype("float32")).astype("bfloat16")


def placed(mx: Any, inputs: list[Any], place: str) -> list[Any]:
    """The same inputs where `place` wants them; see `random_calls.PLACES`."""
    if place == "same":
        first: dict[Any, Any] = {}
        return [first.setdefault((x.shape, x.dtype), x) for x in inputs]
    if place == "buffer":
        for dtype in {x.dtype for x in inputs}:
            mine = [i for i, x in enumerate(inputs) if x.dtype == dtype and x.size]
            start, buffer = 1, mx.nd.zeros((1 + sum(inputs[i].size for i in mine),), dtype=dtype)
            for i in mine:
                stop = start + inputs[i].size
                buffer[start:stop] = inputs[i].reshape((-1,))
                inputs[i], start = buffer[start:stop].reshape(inputs[i].shape), stop
    return inputs


def spelled(params: dict[str, Any], spelling: str) -> dict[str, Any]:
    """Parameters as text, or with NumPy's numbers."""
    if spelling == "text":
        return {name: str(value) for name, value in params.items()}
    if spelling == "numpy":
        numbers = {int: np.int64, float: np.float32, bool: np.bool_}
        return {
            name: numbers[type(value)](value)
            if type(value) in numbers and abs(value) < 2**63
            else np.asarray(value)
            if isinstance(value, tuple) and value and all(type(v) is int and abs(v) < 2**63 for v in value)
            else value
            for name, value in params.items()
        }
    return params


def target(mx: Any, call: Any, inputs: list[Any], result: Any) -> Any:
    """What is given as `out`."""
    if call.target == "input" and inputs:
        return inputs[0]
    if call.target == "view" and inputs and inputs[0].shape and inputs[0].shape[0] > 1:
        return inputs[-1][1:] if inputs[-1].shape else inputs[-1]
    if call.target == "overlap" and inputs and inputs[0].size > 1:
        flat = inputs[0].reshape((-1,))
        shape = result.shape if hasattr(result, "shape") else ()
        size = int(np.prod(shape))
        return flat[1 : 1 + size].reshape(shape) if shape and 0 < size < flat.size else flat[:-1]
    if call.target == "no array":
        return np.zeros(3)
    if call.target == "wrong shape":
        return mx.nd.zeros((3, 1, 2))
    first = (result or [None])[0] if isinstance(result, list) else result
    if first is None:
        return None
    if call.target == "wrong type":
        return mx.nd.zeros(first.shape, dtype="int32")
    made = [mx.nd.zeros(r.shape, dtype=r.dtype) for r in (result if isinstance(result, list) else [result])]
    return made if call.target == "list" or isinstance(result, list) else made[0]


def arguments(call: Any, inputs: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The inputs by position, or by name where positions depend on parameters."""
    from mx_core import operators

    op = operators.get(call.op)
    try:
        names = [*op.inputs(op.Param.parse(call.params)), *op.aux(op.Param.parse(call.params))]
    except Exception:  # the call will say so
        return inputs, {}
    if op.variadic is not None or len(names) != len(inputs) or set(names) & set(call.params):
        return inputs, {}
    return [], dict(zip(names, inputs, strict=True))


def perform(call: Any) -> None:
    """Calls and reads everything that came."""
    import mx
    from mx_ndarray.operator_functions import function

    rng = np.random.default_rng(len(repr(call)))
    inputs = placed(mx, [array(mx, rng, *described) for described in call.inputs], call.place)
    call = dataclasses.replace(call, params=spelled(call.params, call.spelling))
    if call.front == "sym":
        return through_graph(mx, call, inputs)
    op = function(call.op)
    positional, named = arguments(call, inputs)
    recording = call.front == "record"
    if recording:
        for x in inputs:
            x.attach_grad("add" if call.record == "add" else "write")
    with mx.autograd.record(recording) if recording else mx.autograd.pause():
        result = op(*positional, **named, **call.params)
    if recording:
        differentiate(mx, call, result if isinstance(result, list) else [result], inputs)
    read(result)
    read([x.grad for x in inputs if x.grad is not None] if recording else [])
    if call.target != "none":
        read(op(*positional, **named, **call.params, out=target(mx, call, inputs, result)))
    return None


def differentiate(mx: Any, call: Any, heads: list[Any], inputs: list[Any]) -> None:
    """Backward of what was recorded; twice, or of the gradients themselves, if the call says so."""
    if not heads:
        return
    if call.record == "higher" and inputs:
        grads = mx.autograd.grad(heads, inputs, create_graph=True)
        read(grads)
        mx.autograd.backward(grads)
        return
    mx.autograd.backward(heads, retain_graph=call.record == "add")
    if call.record == "add":
        mx.autograd.backward(heads)


def through_graph(mx: Any, call: Any, inputs: list[Any]) -> None:
    """The same call as a graph of one node, bound, forwards and backwards."""
    from mx_symbol.symbol.functions import function

    variables = [mx.sym.Variable(f"x{i}") for i in range(len(inputs))]
    positional, named = arguments(call, variables)
    net = function(call.op)(*positional, **named, **call.params)
    given = {f"x{i}": x for i, x in enumerate(inputs)}
    args = {name: given[name] for name in net.list_arguments() if name in given}
    aux = {name: given[name] for name in net.list_auxiliary_states() if name in given}
    grads = {name: mx.nd.zeros(x.shape, dtype=x.dtype) for name, x in args.items()}
    executor = net.bind(mx.cpu(), args, grads, aux_states=aux)
    read(executor.forward(is_train=True))
    executor.backward([mx.nd.ones(y.shape, dtype=y.dtype) for y in executor.outputs])
    read(list(grads.values()))


def read(results: Any) -> None:
    """Waits for results."""
    for result in results if isinstance(results, (list, tuple)) else [results]:
        if result is not None:
            result.asnumpy()


def judge(number: int, call: Any) -> Outcome:
    """Performs a call and says what came of it."""
    import mx
    from mx_core.errors import MXNetError

    before = resident()
    kind, detail = "result", ""
    for step in (lambda: perform(call), mx.nd.waitall):
        try:
            step()
        except MXNetError as error:
            if kind == "result":
                kind, detail = "refused", f"{type(error).__name__}: {error}"
        except TypeError as error:  # Python's own protocol for calls, but it must name the operator
            named = str(error).startswith("[")
            kind = "refused" if named and kind != "foreign" else "foreign"
            detail = detail_of(error)
        except Exception as error:
            kind, detail = "foreign", detail_of(error)
    grown = resident() - before
    if grown > RESIDENT:
        kind, detail = "memory", f"{grown >> 20} MiB at once; {detail}"
    return Outcome(number, kind, call.op, detail[:600])


# ---- processes ------------------------------------------------------------------------------------


def operators_called() -> tuple[str, ...]:
    """All operators, or those that the environment names."""
    import random_calls

    only = os.environ.get("MX_FUZZ_OPERATORS")
    return tuple(only.split(",")) if only else random_calls.all_operators()


def work(seed: int, numbers: range) -> None:
    """Calls, and reports each as one line on standard output."""
    import random_calls

    import mx
    from mx_core.services import storage

    os.environ.setdefault("MX_SYNC_TIMEOUT", "0.5")  # seconds: no call has a second device that joins it
    names = operators_called()
    storage("cpu").set_limit(ARRAYS)
    mx.nd.waitall()

    def call(number: int) -> Outcome:
        with np.errstate(all="ignore"):
            return judge(number, random_calls.make(seed, number, names))

    workers.work(numbers, lambda number: names[number % len(names)], call)


def show(seed: int, number: int) -> None:
    """Makes one call."""
    import random_calls

    call = random_calls.make(seed, number, operators_called())
    print(call)
    perform(call)


#: the outcomes of calls: `fuzz(seed, calls, ...)`
fuzz = functools.partial(workers.fuzz, __file__)

if __name__ == "__main__":
    sys.exit(workers.command_line(__file__, __doc__, work, show))
