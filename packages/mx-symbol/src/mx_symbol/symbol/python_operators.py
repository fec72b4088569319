# SPDX-License-Identifier: Apache-2.0
"""MXNet's older operators written in Python, `NumpyOp` and `NDArrayOp`, as `Custom` nodes.

Their symbols name an operator object of this process, so a graph with one can be written to a file,
but not be read in another process.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mx_core.errors import ArgumentError
from mx_ndarray.custom import CustomOp, CustomOpProp, register

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol

_made: dict[str, PythonOp] = {}
_numbers = itertools.count()


class PythonOp:
    """What both kinds share. An instance is applied to symbols by calling it.

    Deprecated, as in MXNet: `CustomOp` does the same, has auxiliary states and other types than
    float32, and its graphs can be read from files.

    Threads: one makes symbols of it; its methods run on any thread of the engine.

    Parameters
    ----------
    need_top_grad : bool
        Whether backward reads the out-gradients; False for a loss.
    """

    _kind: ClassVar[str] = ""
    _number = ""  # by which symbols name it, once there is one

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad
        name = next(c.__name__ for c in type(self).__mro__ if c.__module__ == __name__)
        warnings.warn(f"{name} is deprecated; use CustomOp", FutureWarning, stacklevel=2)

    def __call__(self, *args: Any, **kwargs: Any) -> Symbol:
        """The operator applied to symbols; see `get_symbol`."""
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Symbol:
        """The operator applied to symbols.

        Parameters
        ----------
        *args, **kwargs
            Inputs by position or by name (those that are missing become variables), `name`, `attr`.
        """
        from mx_symbol.symbol.functions import function

        if not self._kind:
            raise NotImplementedError("[PythonOp] derive from NumpyOp or NDArrayOp, or better from CustomOp")
        if not self._number:
            self._number = str(next(_numbers))
            _made[self._number] = self
        return function("Custom", self._kind)(*args, op_type=self._kind, info=self._number, **kwargs)

    def forward(self, in_data: list[Any], out_data: list[Any]) -> None:
        """Writes the outputs into `out_data`; by default the first input into the first output."""
        out_data[0][:] = in_data[0]

    def backward(
        self, out_grad: list[Any], in_data: list[Any], out_data: list[Any], in_grad: list[Any]
    ) -> None:
        """Writes the gradients into `in_grad`; by default ones. Those it does not write are zeros.

        Parameters
        ----------
        out_grad : of the outputs; [] without `need_top_grad`
        """
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: list[list[int]]) -> Sequence[Any]:
        """Shapes of inputs and outputs, from what is known of the inputs."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether backward reads the out-gradients."""
        return self.need_top_grad_

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        """Which of the numbered arrays `backward` reads; it is given no others."""
        return [*(out_grad if self.need_top_grad() else ()), *in_data, *out_data]


class NumpyOp(PythonOp):
    """An operator over NumPy arrays: `forward` and `backward` fill the arrays they are given.

    Examples
    --------
    >>> class Square(mx.operator.NumpyOp):
    ...     def forward(self, in_data, out_data):
    ...         out_data[0][:] = in_data[0] ** 2
    ...
    ...     def backward(self, out_grad, in_data, out_data, in_grad):
    ...         in_grad[0][:] = 2 * in_data[0] * out_grad[0]
    >>> y = Square()(mx.sym.Variable("x"), name="square")
    """

    _kind = "_native"


class NDArrayOp(PythonOp):
    """An operator over NDArrays; otherwise as `NumpyOp`."""

    _kind = "_ndarray"


def _given(arrays: list[Any]) -> list[Any]:
    return [array for array in arrays if array is not None]


class _OverArrays(CustomOp):
    """Runs an `NDArrayOp`."""

    def __init__(self, op: PythonOp) -> None:
        self.op = op

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.op.forward(in_data, out_data)

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.op.backward(_given(out_grad), _given(in_data), _given(out_data), in_grad)


class _OverNumpy(CustomOp):
    """Runs a `NumpyOp` on copies of the arrays."""

    def __init__(self, op: PythonOp) -> None:
        self.op = op

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        made = [np.zeros(array.shape, array.dtype) for array in out_data]
        self.op.forward([array.asnumpy() for array in in_data], made)
        for target, how, values in zip(out_data, req, made, strict=True):
            self.assign(target, how, values)

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        made = [np.zeros(array.shape, array.dtype) for array in in_grad]
        given = [[array.asnumpy() for array in _given(part)] for part in (out_grad, in_data, out_data)]
        self.op.backward(given[0], given[1], given[2], made)
        for target, how, values in zip(in_grad, req, made, strict=True):
            self.assign(target, how, values)


@register("_native")
class _NativeProp(CustomOpProp):
    """Of the node of a `NumpyOp`; `info` is the number of the operator."""

    runs: ClassVar[type[_OverNumpy | _OverArrays]] = _OverNumpy

    def __init__(self, info: str) -> None:
        op = _made.get(info)
        if op is None:
            raise ArgumentError(
                f"[Custom] info: there is no operator {info!r}; a graph with a NumpyOp or an NDArrayOp can "
                "only be read by the process that made it, one with a CustomOp by any"
            )
        super().__init__(op.need_top_grad())
        self.op = op

    def list_arguments(self) -> list[str]:
        return self.op.list_arguments()

    def list_outputs(self) -> list[str]:
        return self.op.list_outputs()

    def infer_shape(self, in_shape: list[list[int]]) -> Sequence[Any]:
        return (*self.op.infer_shape(in_shape), [])

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        return self.op.declare_backward_dependency(out_grad, in_data, out_data)

    def create_operator(self, ctx: str, in_shapes: list[list[int]], in_dtypes: list[int]) -> CustomOp:
        return self.runs(self.op)


@register("_ndarray")
class _NDArrayProp(_NativeProp):
    """Of the node of an `NDArrayOp`."""

    runs = _OverArrays
