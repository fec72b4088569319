# SPDX-License-Identifier: Apache-2.0
"""Values of parameters from arrays that were saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mx_core import dtypes
from mx_core.context import Context, cpu
from mx_gluon.errors import RefusedError
from mx_gluon.parameter.filling import Contexts
from mx_gluon.parameter.parameter import Parameter
from mx_gluon.parameter.shapes import merged
from mx_ndarray import NDArray


def load_all(
    values: Sequence[tuple[Parameter, NDArray]], ctx: Contexts, cast_dtype: bool, dtype_source: str
) -> None:
    """`load_into` for many parameters: all or, if one is refused, none."""
    shapes: dict[Parameter, tuple[int, ...]] = {}
    for param, data in values:
        _check(param, data, ctx, cast_dtype, dtype_source)
        if shapes.setdefault(param, data.shape) != data.shape:
            raise RefusedError(
                f"[Parameter {param.name}] load: expected one shape under all its names, got {shapes[param]} and "
                f"{data.shape}"
            )
    for param, data in values:
        load_into(param, data, ctx, cast_dtype, dtype_source)


def load_into(
    param: Parameter, data: NDArray, ctx: Contexts, cast_dtype: bool = False, dtype_source: str = "current"
) -> None:
    """Gives a parameter saved values, initialised or not.

    Parameters
    ----------
    ctx : Context or sequence of them, optional
        Where a parameter that is not initialised goes, `cpu(0)` without; others stay where they are.
    cast_dtype : bool
        Accept another element type.
    dtype_source : {"current", "saved"}
        Which type wins then: the parameter's or the saved array's.

    Raises
    ------
    RefusedError  another shape, type or context than the parameter has
    """
    wanted = _check(param, data, ctx, cast_dtype, dtype_source)
    data = _typed(param, data, cast_dtype, dtype_source)
    param.shape = data.shape
    if param._data is None:
        param._init_impl(data, wanted or [cpu()])
    else:
        param.set_data(data)
    param._deferred_init = None


def _check(
    param: Parameter, data: NDArray, ctx: Contexts, cast_dtype: bool, dtype_source: str
) -> list[Context] | None:
    """The contexts that values go to; raises as `load_into` does, and changes nothing."""
    name = f"[Parameter {param.name}] load"
    if cast_dtype and dtype_source not in ("current", "saved"):
        raise RefusedError(f"{name}: dtype_source: expected 'current' or 'saved', got {dtype_source!r}")
    if param.shape:
        shape = merged(param.shape, data.shape)
        if shape != data.shape:
            raise RefusedError(
                f"{name}: expected shape {param.shape}, got {data.shape}; the file is of another network, or of one "
                "with other settings, such as the number of classes"
            )
    here, saved = dtypes.code(param.dtype, name), data._dtype_code
    if here != saved and not cast_dtype:
        raise RefusedError(
            f"{name}: expected {dtypes.name(here)}, got {dtypes.name(saved)}; cast_dtype=True accepts both"
        )
    wanted = [ctx] if isinstance(ctx, Context) else None if ctx is None else list(ctx)
    if param._data is not None or param._deferred_init is not None:
        known = param.list_ctx()
        if wanted is not None and set(wanted) != set(known):
            raise RefusedError(f"{name}: asked for {wanted}, but the parameter was initialised on {known}")
        wanted = known
    return wanted


def _typed(param: Parameter, data: NDArray, cast_dtype: bool, dtype_source: str) -> NDArray:
    here = dtypes.code(param.dtype, f"[Parameter {param.name}] load")
    if here == data._dtype_code:
        return data
    if dtype_source == "current":
        return data.astype(dtypes.name(here))
    param.cast(data.dtype)
    return data


def brief(names: Iterable[Any], limit: int = 7) -> str:
    """Names for a message, quoted; of many the first and the last."""
    shown = [repr(str(name)) for name in names]
    if len(shown) > limit:
        shown = [*shown[: limit // 2], "…", *shown[-(limit // 2) :]]
    return ", ".join(shown)
