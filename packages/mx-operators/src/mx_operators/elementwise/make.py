# SPDX-License-Identifier: Apache-2.0
"""Families of elementwise operators that differ in one line each."""

from __future__ import annotations

from collections.abc import Callable

from mx_core import dtypes
from mx_core.expression import Traced
from mx_core.operator import NoParams, Params, SimpleOp, Types, opt


class ScalarParam(Params):
    """The number on the other side."""

    scalar: float = opt(1.0, "the number", runtime=True)
    is_int: bool = opt(True, "False: the number has a fraction, data of integers are refused")


def elementwise(
    name: str,
    function: Callable[..., Traced],
    gradient: Callable[..., Traced] | None = None,
    *,
    doc: str,
    arguments: tuple[str, ...] = ("data",),
    aliases: tuple[str, ...] = (),
    params: type[Params] = NoParams,
    broadcast: bool = False,
    differentiable: bool = True,
    base: type[SimpleOp] = SimpleOp,
) -> type[SimpleOp]:
    """A SimpleOp class from `function(p, *inputs)` and, optionally, its gradient."""
    members: dict[str, object] = {
        "name": name, "aliases": aliases, "Param": params, "arguments": arguments,
        "broadcast": broadcast, "differentiable": differentiable, "__doc__": doc,
        "__module__": function.__module__, "function": staticmethod(function),
    }  # fmt: skip
    if gradient is not None:
        members["gradient_function"] = staticmethod(gradient)
    return type(name.strip("_").title().replace("_", ""), (base,), members)


class _WithNumber(SimpleOp[ScalarParam]):
    def infer_type(self, p: ScalarParam, t: Types) -> None:
        """As data; truth values become integers."""
        data = t.get("data")
        if not p.is_int and data is not None and dtypes.name(data) not in dtypes.FLOATING:
            raise t.error(
                f"data: expected a floating-point type with is_int=False, got {dtypes.name(data)}; "
                "convert with astype('float64')"
            )
        if data == dtypes.code("bool"):
            t.assign("output", "int64")
        else:
            t.unify(["data", "output"])


def scalar_operator(
    name: str, function: Callable[..., Traced], doc: str, alias: str, *, differentiable: bool = True
) -> type[SimpleOp]:
    """An operator of an array and a number, `function(x, scalar)`."""
    return elementwise(
        name,
        lambda p, data: function(data, p.scalar),
        doc=doc, aliases=(alias,), params=ScalarParam, differentiable=differentiable, base=_WithNumber,
    )  # fmt: skip
