# SPDX-License-Identifier: Apache-2.0
"""The attributes a variable is made with."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from mx_core import dtypes
from mx_core.errors import ArgumentError
from mx_symbol.graph.text import STORAGE, STORAGE_TYPES
from mx_symbol.symbol.attribute import AttrScope, canonical, is_dunder


def variable_attributes(
    attr: Mapping[str, str] | None,
    shape: Sequence[int] | None,
    lr_mult: float | None,
    wd_mult: float | None,
    dtype: Any,
    init: Any,
    stype: str | None,
    extra: Mapping[str, str],
) -> dict[str, str]:
    """Attributes of a scope, given ones, and those that have an argument of their own."""
    for key, value in (attr or {}).items():
        if not isinstance(value, str):
            raise ArgumentError(f"[Variable] attr {key}: expected text, got {value!r}")
    attrs = AttrScope.current.get(attr)
    if shape is not None:
        attrs["__shape__"] = _shape_text(shape)
    if lr_mult is not None:
        attrs["__lr_mult__"] = str(lr_mult)
    if wd_mult is not None:
        attrs["__wd_mult__"] = str(wd_mult)
    if dtype is not None:
        attrs["__dtype__"] = str(dtypes.code(dtype, "[Variable] dtype"))
    if init is not None:
        attrs["__init__"] = init if isinstance(init, str) else init.dumps()
    if stype is not None:
        if stype not in STORAGE_TYPES:
            known = ", ".join(STORAGE_TYPES)
            raise ArgumentError(f"[Variable] stype: expected one of {known}, got {stype!r}")
        attrs[STORAGE] = STORAGE_TYPES[stype]
    for key, value in extra.items():
        if not is_dunder(key):
            raise ArgumentError(
                f"[Variable] unknown argument {key!r}; attributes of your own have names such as __key__"
            )
        attrs[key] = str(value)
    return canonical(attrs)


def _shape_text(shape: Sequence[int]) -> str:
    try:
        dims = [operator.index(d) for d in ([shape] if isinstance(shape, int) else shape)]
    except TypeError:
        raise ArgumentError(f"[Variable] shape: expected integers, got {shape!r}") from None
    inner = ", ".join(map(str, dims))
    return f"({inner},)" if len(dims) == 1 else f"({inner})"
