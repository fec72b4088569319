# SPDX-License-Identifier: Apache-2.0
"""Base classes of custom operators, and the table of their names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mx_core.errors import ArgumentError, UnknownOperatorError

if TYPE_CHECKING:
    from mx_ndarray.ndarray import NDArray

Property = TypeVar("Property", bound="type[CustomOpProp]")


class CustomOp:
    """The computation of a custom operator.

    The engine runs `forward` and `backward` on a thread for Python. Arrays may be used freely
    there: operators may be applied and waited for; nothing is recorded. An exception reaches
    the code that waits for a result. The arrays belong to the operator until the method returns.

    On a GPU the arrays are there. CuPy and PyTorch take them without a copy (`cupy.asarray(in_data[0])`,
    `torch.from_dlpack(in_data[0])`), and `assign` takes theirs. What they enqueue on their current stream, or on any
    other, has ended before anybody reads a result.

    Threads: the methods of one instance run on any thread of the engine, one at a time when they
    share arrays; what else they share, they lock.
    """

    def forward(
        self, is_train: bool, req: list[str], in_data: list[NDArray], out_data: list[NDArray],
        aux: list[NDArray],
    ) -> None:  # fmt: skip
        """Computes the outputs.

        Parameters
        ----------
        is_train : whether this is training
        req : per output what `assign` does: "null" or "write"
        in_data : the inputs
        out_data : the outputs, to be filled with `assign`
        aux : auxiliary states, which may be changed
        """

    def backward(
        self, req: list[str], out_grad: list[Any], in_data: list[Any], out_data: list[Any],
        in_grad: list[NDArray], aux: list[NDArray],
    ) -> None:  # fmt: skip
        """Computes the gradients of the inputs.

        Parameters
        ----------
        req : per input what `assign` does: "null" or "write"
        out_grad, in_data, out_data : None where `declare_backward_dependency` left it out
        in_grad : the gradients, to be filled with `assign`
        """

    def assign(self, dst: NDArray, req: str, src: Any) -> None:
        """Writes `src` to `dst` as `req` says: null, write, inplace or add."""
        if req == "null":
            return
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src
        else:
            raise ArgumentError(f"[assign] req: expected null, write, inplace or add, got {req!r}")


class CustomOpProp:
    """Names, shapes and types of a custom operator; makes its `CustomOp`.

    Parameters
    ----------
    need_top_grad : bool
        Whether backward reads the out-gradients; False for a loss.

    Threads: made and asked on the thread that applies the operator.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape: list[list[int]]) -> Sequence[Any]:
        """Shapes of inputs, outputs and (optionally) auxiliary states.

        Parameters
        ----------
        in_shape : a list per input; [] while it is unknown, 0 for an unknown extent
        """
        return in_shape, (in_shape[0],) * len(self.list_outputs()), ()

    def infer_type(self, in_type: list[Any]) -> Sequence[Any]:
        """NumPy types of inputs, outputs and (optionally) auxiliary states; None is unknown."""
        first = in_type[0]
        return (
            [first] * len(in_type),
            [first] * len(self.list_outputs()),
            [first] * len(self.list_auxiliary_states()),
        )

    def infer_storage_type(self, in_stype: list[str]) -> Sequence[Any]:
        """Storage types; all are "default"."""
        states = self.list_auxiliary_states()
        return in_stype, ["default"] * len(self.list_outputs()), ["default"] * len(states)

    def infer_storage_type_backward(
        self, ograd_stype: list[str], in_stype: list[str], out_stype: list[str],
        igrad_stype: list[str], aux_stype: list[str],
    ) -> Sequence[Any]:  # fmt: skip
        """Storage types in backward; all are "default"."""
        given = (ograd_stype, in_stype, out_stype, igrad_stype, aux_stype)
        return tuple(["default"] * len(types) for types in given)

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the auxiliary states."""
        return []

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        """Which of the numbered arrays `backward` reads; the others are not kept for it."""
        return [*(out_grad if self.need_top_grad_ else ()), *in_data, *out_data]

    def create_operator(self, ctx: str, in_shapes: list[list[int]], in_dtypes: list[int]) -> CustomOp:
        """The operator for one place in a program, or for one call of `nd.Custom`.

        Parameters
        ----------
        ctx : such as "cpu(0)"
        in_dtypes : MXNet's type codes
        """
        return CustomOp()


_registered: dict[str, type[CustomOpProp]] = {}


def register(reg_name: str) -> Callable[[Property], Property]:
    """Makes a `CustomOpProp` known as `op_type=reg_name`; a later one of a name replaces it.

    Examples
    --------
    >>> @mx.operator.register("square")
    ... class SquareProp(mx.operator.CustomOpProp):
    ...     def create_operator(self, ctx, in_shapes, in_dtypes):
    ...         return Square()
    """

    def add(cls: Property) -> Property:
        if not (isinstance(cls, type) and issubclass(cls, CustomOpProp)):
            raise TypeError(f"[register] {reg_name!r}: expected a class of CustomOpProp, got {cls!r}")
        _registered[reg_name] = cls
        return cls

    return add


def registered(op_type: str) -> type[CustomOpProp]:
    """The class registered under a name.

    Raises
    ------
    UnknownOperatorError  there is none; names the closest ones
    """
    try:
        return _registered[op_type]
    except KeyError:
        close = difflib.get_close_matches(op_type, _registered, 3)
        hint = f"; did you mean {', '.join(map(repr, close))}?" if close else ""
        raise UnknownOperatorError(
            f"[Custom] op_type: no custom operator {op_type!r} is registered with "
            f"mx.operator.register ({len(_registered)} are){hint}"
        ) from None


def get_all_registered_operators() -> list[str]:
    """Names of all operators, those in Python included."""
    from mx_core import operators

    return [*operators.names(), *sorted(_registered)]
