# SPDX-License-Identifier: Apache-2.0
"""Methods that are refused here and that nothing but MXNet has: their name alone tells whose they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_DENSE = "only dense arrays are here"
_NUMPY = "arrays of NumPy semantics are not here; everything is an NDArray"
_BACKENDS = "backends for parts of a graph are not here; graph passes are, see `mx_register_graph_passes`"

#: methods whose calls are refused, and what there is instead
_REFUSED = {
    "row_sparse_pull": f"{_DENSE}; `pull`",
    "row_sparse_data": f"{_DENSE}; `data`",
    "list_row_sparse_data": f"{_DENSE}; `list_data`",
    "as_np_ndarray": _NUMPY,
    "as_nd_ndarray": _NUMPY,
    "optimize_for": _BACKENDS,
    "get_backend_symbol": _BACKENDS,
}


def of_call(call: ast.Call) -> Iterator[str]:
    """What there is instead of a method, if its call is refused."""
    if not isinstance(call.func, ast.Attribute):
        return
    match call.func.attr:
        case "tostype":
            if (kind := _text(call, 0)) not in (None, "default"):  # stype= is told of any call
                yield f"tostype({kind!r}): {_DENSE}; leave it out"
        case "hybridize":
            if (backend := _text(call, 1, "backend")) is not None:
                yield f"backend={backend!r}: {_BACKENDS}"
        case name if name in _REFUSED:
            yield _REFUSED[name]


def _text(call: ast.Call, place: int, name: str | None = None) -> str | None:
    """The text of an argument, if it is written in the call."""
    given = [
        *call.args[place : place + 1],
        *(each.value for each in call.keywords if name and each.arg == name),
    ]
    match given:
        case [ast.Constant(value=str(text)), *_]:
            return text
    return None
