# SPDX-License-Identifier: Apache-2.0
"""Running a `CustomOp` inside an engine operation: NumPy arrays in and out, or on a device NDArrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_ndarray import _core, autograd
from mx_ndarray.creation import zeros
from mx_ndarray.custom.property import CustomOp, CustomOpProp
from mx_ndarray.ndarray import NDArray

Spec = tuple[tuple[int, ...], int]


def create(prop: CustomOpProp, context: Context, specs: Sequence[Spec]) -> CustomOp:
    """The operator for inputs of these shapes and type codes."""
    made = prop.create_operator(str(context), [list(shape) for shape, _ in specs], [t for _, t in specs])
    if not isinstance(made, CustomOp):
        raise TypeError(f"[Custom] create_operator: expected a CustomOp, got {type(made).__name__}")
    return made


class HostArrays:
    """The NDArrays of one run in main memory.

    They have variables of their own, so that the operator can push and wait although the engine
    has given it the variables of what lies after them.

    Threads: belongs to one call.
    """

    def __init__(self) -> None:
        self._all: list[NDArray] = []

    def reading(self, values: np.ndarray[Any, Any]) -> NDArray:
        """An input: shared where its memory has an owner that a kept array keeps alive."""
        owned = values.base is not None or bool(values.flags["OWNDATA"])
        return self._shared(values if owned and values.flags["C_CONTIGUOUS"] else np.array(values))

    def writing(self, shape: Sequence[int], dtype: int) -> NDArray:
        """An output, zero until it is assigned."""
        return self._shared(np.zeros(tuple(shape), dtypes.numpy_dtype(dtype)))

    def changing(self, values: np.ndarray[Any, Any]) -> NDArray:
        """An auxiliary state: a copy, which is put back afterwards."""
        return self._shared(np.array(values))

    def _shared(self, values: np.ndarray[Any, Any]) -> NDArray:
        array = _core.share_numpy(values, dtypes.code(values.dtype))
        self._all.append(array)
        return array

    def results(self, arrays: Sequence[NDArray]) -> Sequence[Any]:
        """Values, after everything that was pushed on any of the arrays: afterwards their memory is not ours."""
        for array in self._all:
            array.wait_to_write()
        return [_core.as_numpy(x) for x in arrays]


class DeviceArrays:
    """The same on a device, where the run has NDArrays already.

    Threads: belongs to one call.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def reading(self, values: Any) -> NDArray:
        """An input."""
        given: NDArray = values
        return given

    def writing(self, shape: Sequence[int], dtype: int) -> NDArray:
        """An output, zero until it is assigned."""
        return zeros(tuple(shape), ctx=self._context, dtype=dtypes.name(dtype))

    def changing(self, values: Any) -> NDArray:
        """An auxiliary state: a copy, which is put back afterwards."""
        copied: NDArray = values.copy()
        return copied

    def results(self, arrays: Sequence[NDArray]) -> Sequence[Any]:
        """The arrays; who runs the operator waits for them."""
        return arrays


def _arrays(context: Context) -> HostArrays | DeviceArrays:
    return HostArrays() if context.device_type.startswith("cpu") else DeviceArrays(context)


class _Unfilled(list[NDArray]):
    """Arrays that an operator fills. Another array in their place would be lost, since the list is not read again."""

    def __init__(self, name: str, arrays: Sequence[NDArray], numbered: bool = True) -> None:
        super().__init__(arrays)
        self._name = name
        self._numbered = numbered

    def __setitem__(self, index: Any, value: Any) -> None:
        if (
            not isinstance(index, slice) and value is self[index]
        ):  # `out_data[0] += x` has changed the array itself
            return
        number = "i" if isinstance(index, slice) else index
        at = f"{self._name}[{number}]"
        assign = f"self.assign({at}, req[{number}], value) or " if self._numbered else ""
        raise ArgumentError(
            f"[Custom] {at} = value puts another array into the list, which is not read again; "
            f"write {assign}{at}[:] = value"
        )


def run_forward(
    op: CustomOp, context: Context, inputs: Sequence[Any], aux: Sequence[Any], outputs: Sequence[Spec],
    is_train: bool,
) -> Sequence[Any]:  # fmt: skip
    """Outputs, then new values of auxiliary states."""
    arrays = _arrays(context)
    in_data = [arrays.reading(x) for x in inputs]
    states = [arrays.changing(x) for x in aux]
    out_data = [arrays.writing(shape, dtype) for shape, dtype in outputs]
    results = [*out_data, *states]
    with autograd.pause(train_mode=is_train):
        filled = _Unfilled("out_data", out_data), _Unfilled("aux", states, numbered=False)
        op.forward(is_train, ["write"] * len(out_data), in_data, *filled)
        return arrays.results(results)


def run_backward(
    op: CustomOp, context: Context, given: Sequence[Sequence[Any]], aux: Sequence[Any],
    grads: Sequence[Spec], needed: Sequence[bool], is_train: bool,
) -> Sequence[Any]:  # fmt: skip
    """Gradients of the inputs, then new values of auxiliary states.

    Parameters
    ----------
    given : out-gradients, inputs and outputs; None for what is not kept
    needed : per input whether anyone wants its gradient
    """
    arrays = _arrays(context)
    out_grad, in_data, out_data = (
        [None if x is None else arrays.reading(x) for x in values] for values in given
    )
    states = [arrays.changing(x) for x in aux]
    in_grad = [arrays.writing(shape, dtype) for shape, dtype in grads]
    results = [*in_grad, *states]
    with autograd.pause(train_mode=is_train):
        req = ["write" if wanted else "null" for wanted in needed]
        filled = _Unfilled("in_grad", in_grad), _Unfilled("aux", states, numbered=False)
        op.backward(req, out_grad, in_data, out_data, *filled)
        return arrays.results(results)
