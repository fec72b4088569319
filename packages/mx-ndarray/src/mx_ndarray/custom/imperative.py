# SPDX-License-Identifier: Apache-2.0
"""`nd.Custom`: a custom operator applied to arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core import dtypes
from mx_core.context import Context, current_context
from mx_core.errors import ArgumentError, MXNetError
from mx_core.operator import ReferenceContext, infer_shapes, infer_types
from mx_ndarray import _core, autograd
from mx_ndarray.custom.operator import Custom as Declared
from mx_ndarray.custom.operator import dependencies
from mx_ndarray.custom.params import CustomParams
from mx_ndarray.custom.running import Spec, create, run_backward, run_forward
from mx_ndarray.ndarray import NDArray
from mx_ndarray.operator_functions import serves

_declared = Declared()


@serves("Custom")
def Custom(
    *data: NDArray, op_type: str | None = None, out: Any = None, name: str | None = None, **kwargs: Any
) -> Any:
    """Applies an operator that was registered with `mx.operator.register`.

    Returns at once; `forward` runs on a thread of the engine.

    Parameters
    ----------
    *data : NDArray
        Inputs, then auxiliary states; also by the names of `list_arguments` and
        `list_auxiliary_states`.
    op_type : str
        The registered name.
    out : NDArray or list of NDArray, optional
        Where to put the results.
    **kwargs
        For the constructor of the property, as text.

    Returns
    -------
    NDArray, or list of NDArray if there are several outputs
        On the context of the inputs.

    Raises
    ------
    UnknownOperatorError  no operator is registered under `op_type`
    ArgumentError  no `op_type`; too few or too many inputs
    Exception  what `forward` raises, at the wait for a result

    Examples
    --------
    >>> mx.nd.Custom(x, op_type="square")
    """
    arrays = {key: value for key, value in kwargs.items() if isinstance(value, NDArray)}
    settings = {key: value for key, value in kwargs.items() if key not in arrays}
    named = {} if op_type is None else {"op_type": op_type}
    p = CustomParams.parse({**named, **settings}, op="Custom")
    return _Application(p, _ordered(p, data, arrays)).run(out)


def _ordered(p: CustomParams, data: Sequence[NDArray], named: dict[str, NDArray]) -> list[NDArray]:
    names = (*_declared.inputs(p), *_declared.aux(p))
    unknown = [key for key in named if key not in names[len(data) :]]
    if len(data) + len(named) != len(names) or unknown:
        raise ArgumentError(
            f"[Custom] {p.op_type!r}: expected inputs {', '.join(names)}; got {len(data)} by position"
            + (f" and {', '.join(named)}" if named else "")
        )
    for position, value in enumerate(data):
        if not isinstance(value, NDArray):
            raise TypeError(
                f"[Custom] {p.op_type!r} {names[position]}: expected an NDArray, got {type(value).__name__}"
            )
    return [*data, *(named[key] for key in names[len(data) :])]


class _Application:
    """One call: its operator and its arrays."""

    def __init__(self, p: CustomParams, arrays: list[NDArray]) -> None:
        self._p = p
        self._context: Context = arrays[0].context if arrays else current_context()
        n = len(_declared.inputs(p))
        self._data, self._aux = arrays[:n], arrays[n:]
        specs = [(x.shape, x._dtype_code) for x in arrays]
        _, shapes = infer_shapes(_declared, p, [shape for shape, _ in specs])
        _, types = infer_types(_declared, p, [dtype for _, dtype in specs])
        visible = _declared.num_visible_outputs(p)
        self._outputs: list[Spec] = []
        for output, shape, dtype in zip(_declared.outputs(p), shapes[:visible], types, strict=False):
            if shape is None or -1 in shape or dtype is None:
                raise MXNetError(
                    f"[Custom] {p.op_type!r} {output}: infer_shape or infer_type did not determine it"
                )
            self._outputs.append((shape, dtype))
        self._inputs: list[Spec] = specs[:n]
        self._op = create(p.prop, self._context, self._inputs)
        # The operator's own memory has an order too: backward may read nothing else that forward wrote.
        self._turn = _core.empty((1,), dtypes.code("int8"), _pair(self._context))

    def run(self, out: Any) -> Any:
        training = autograd.is_training()
        results = self._forward(self._targets(out), training)
        if autograd.is_recording() and any(x._recorded for x in self._data):
            results = [x.detach() for x in results] if out is None else results
            _core.record_custom(self._data, results, self._tape(results, training))
        if out is not None:
            return out
        return results[0] if len(results) == 1 else results

    def _targets(self, out: Any) -> list[NDArray]:
        if out is None:
            return [self._new(spec, self._context) for spec in self._outputs]
        given = [out] if isinstance(out, NDArray) else list(out)
        have = [(x.shape, x._dtype_code) for x in given]
        if have != self._outputs:
            raise ArgumentError(f"[Custom] out: expected {_shown(self._outputs)}, got {_shown(have)}")
        return given

    def _forward(self, targets: list[NDArray], training: bool) -> list[NDArray]:
        n = len(self._data)

        def body(ctx: ReferenceContext, inputs: Sequence[Any]) -> Sequence[Any]:
            *given, turn = inputs
            made = run_forward(self._op, self._context, given[:n], given[n:], self._outputs, ctx.is_train)
            return [*made, turn]

        given = [*self._data, *self._aux, self._turn]
        mutated = list(range(n, len(given)))
        _core.push_function("Custom", body, given, targets, mutated, training, _pair(self._context))
        return targets

    def _tape(self, results: list[NDArray], training: bool) -> Any:
        """The function that the tape calls with out-gradients; it keeps only what backward declares to read."""
        kept_grads, kept_inputs, kept_outputs = dependencies(self._p)
        inputs = {i: autograd._as_it_is(self._data[i].detach()) for i in kept_inputs}
        outputs = {i: autograd._as_it_is(results[i].detach()) for i in kept_outputs}
        needed = [x._recorded for x in self._data]
        specs, n_out, states = self._inputs, len(results), [*self._aux, self._turn]
        op, context, n_in = self._op, self._context, len(self._data)

        def backward(out_grads: Sequence[NDArray], retained: bool) -> list[NDArray | None]:
            heads = {i: out_grads[i] for i in kept_grads}
            given = [*heads.values(), *inputs.values(), *outputs.values()]

            def body(ctx: ReferenceContext, values: Sequence[Any]) -> Sequence[Any]:
                *values, turn = values
                rest = iter(values)
                parts = [
                    _spread(keys, rest, size)
                    for keys, size in ((heads, n_out), (inputs, n_in), (outputs, n_out))
                ]
                made = run_backward(op, context, parts, list(rest), specs, needed, ctx.is_train)
                return [*made, turn]

            grads = [_Application._new(spec, context) for spec in specs]
            mutated = list(range(len(given), len(given) + len(states)))
            arrays = [*given, *states]
            _core.push_function("_backward_Custom", body, arrays, grads, mutated, training, _pair(context))
            return [grad if wanted else None for grad, wanted in zip(grads, needed, strict=True)]

        return backward

    @staticmethod
    def _new(spec: Spec, context: Context) -> NDArray:
        return _core.empty(*spec, _pair(context))


def _pair(context: Context) -> tuple[int, int]:
    return context.device_typeid, context.device_id


def _spread(positions: Any, values: Any, size: int) -> list[Any]:
    """Values at their positions among `size`, None elsewhere."""
    found = {position: next(values) for position in positions}
    return [found.get(i) for i in range(size)]


def _shown(specs: Sequence[Spec]) -> str:
    return ", ".join(f"{dtypes.name(dtype)}{list(shape)}" for shape, dtype in specs)
