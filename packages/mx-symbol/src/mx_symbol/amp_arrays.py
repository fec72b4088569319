# SPDX-License-Identifier: Apache-2.0
"""Mixed precision of calls on arrays: what `amp.init` does besides graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mx_core import dtypes, operators
from mx_ndarray import NDArray, nd
from mx_ndarray.operator_functions import replace
from mx_symbol import passes
from mx_symbol.passes import cast_rules

_replaced: set[str] = set()
_OTHERS = dtypes.FLOATING - {"float32"}


def install() -> None:
    """Has functions of `mx.nd` compute in 16 bits what graphs compute so, for as long as the pass `amp` is on.

    A function that a program took before stays as it was.
    """
    for name in sorted(cast_rules.current().low - _replaced):
        if operators.find(name) is not None:
            _replaced.add(name)
            replace(name, functools.partial(_lowered, name))


def _lowered(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    own_types = cast_rules.first_own_input(name)

    @functools.wraps(plain)
    def function(*args: Any, **kwargs: Any) -> Any:
        if not _computes_low(name, kwargs):
            return plain(*args, **kwargs)
        dtype = cast_rules.current_dtype()
        deciding = (*args[: own_types[1]], *(v for k, v in kwargs.items() if k not in (own_types[0], "out")))
        if any(_type(value) in _OTHERS - {dtype} for value in deciding):
            return plain(*args, **kwargs)  # as in graphs; if types do not fit, the error tells of those given
        out = kwargs.pop("out", None)
        given = [_cast(value, dtype) if i < own_types[1] else value for i, value in enumerate(args)]
        named = {k: value if k == own_types[0] else _cast(value, dtype) for k, value in kwargs.items()}
        unchanged = all(a is b for a, b in zip(args, given, strict=True)) and all(
            named[k] is value for k, value in kwargs.items()
        )
        if unchanged:
            return plain(*args, **kwargs) if out is None else plain(*args, out=out, **kwargs)
        found = plain(*given, **named)
        if isinstance(found, NDArray):
            return _float32(found, out)
        outs = [None] * len(found) if out is None else out
        return [_float32(each, into) for each, into in zip(found, outs, strict=True)]

    return function


def _computes_low(name: str, parameters: dict[str, Any]) -> bool:
    if not passes.is_always("amp"):
        return False
    lists = cast_rules.current()
    if name not in lists.low:
        return False
    return not any(
        name == op and str(parameters.get(parameter)) in values for op, parameter, values in lists.conditional
    )


def _type(value: Any) -> str:
    return dtypes.name(value._dtype_code) if isinstance(value, NDArray) else ""


def _cast(value: Any, dtype: str) -> Any:
    if _type(value) == "float32":
        return nd.amp_cast(value, dtype=dtype)
    return value


def _float32(found: NDArray, out: NDArray | None) -> NDArray:
    made: NDArray = nd.amp_cast(found, dtype="float32", **({} if out is None else {"out": out}))
    return made
