# SPDX-License-Identifier: Apache-2.0
"""Parameter values to and from MXNet's text form: `(3, 3)`, `True`, `None`, `float32`."""

from __future__ import annotations

import ast
import math
import types
import typing
from functools import cache
from typing import TYPE_CHECKING, Any, Union

from mx_core import dtypes
from mx_core.errors import ArgumentError

if TYPE_CHECKING:
    from mx_core.operator.params import FieldInfo

Shape = tuple[int, ...]
_TRUE = frozenset(("1", "true"))
_FALSE = frozenset(("0", "false"))
#: types whose values are taken as they are
_EXACT = frozenset((bool, int, float))


@cache
def alternatives(annotation: Any) -> tuple[Any, bool]:
    """The type without None, and whether None is allowed."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        rest = [a for a in typing.get_args(annotation) if a is not type(None)]
        return (rest[0] if len(rest) == 1 else Union[tuple(rest)]), True  # noqa: UP007
    return annotation, False


def type_name(annotation: Any) -> str:
    """How documentation names a type."""
    kind, optional = alternatives(annotation)
    origin = typing.get_origin(kind)
    if origin is tuple:
        inner = typing.get_args(kind)[0]
        name = "Shape" if inner is int else f"tuple of {type_name(inner)}"
    else:
        name = getattr(kind, "__name__", str(kind))
    return f"{name} or None" if optional else name


def to_text(value: Any) -> str:
    """MXNet's text of a parameter value."""
    if isinstance(value, tuple):
        inner = ", ".join(to_text(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return repr(int(value)) if not (value == 0 and math.copysign(1, value) < 0) else "-0.0"
    return str(value)


def coerce(value: Any, info: FieldInfo, where: str) -> Any:
    """`value` as the declared type, checked against bounds and choices."""
    kind, optional = alternatives(info.annotation)
    if value is None or (isinstance(value, str) and value == "None"):
        if optional or info.default is None:
            return None
        if value is None or kind is not str:
            raise _wrong(value, info, where)
    try:
        result = _convert(value, kind)
    except (ValueError, TypeError, AttributeError, SyntaxError, OverflowError, RecursionError, MemoryError):
        raise _wrong(value, info, where) from None
    if kind is str and info.name.endswith("dtype") and info.choices is None:
        result = dtypes.name(dtypes.code(result, f"{where} {info.name}"))
    if info.choices is not None and result not in info.choices:
        raise ArgumentError(
            f"{where} {info.name}: expected one of {', '.join(map(repr, info.choices))}, got {result!r}"
        )
    for element in result if isinstance(result, tuple) else (result,):
        if isinstance(element, (int, float)):
            _check_bounds(element, result, info, where)
    return result


def _check_bounds(element: float, whole: Any, info: FieldInfo, where: str) -> None:
    if info.lower is not None and not element >= info.lower:
        raise ArgumentError(f"{where} {info.name}: expected at least {info.lower:g}, got {whole!r}")
    if info.upper is not None and not element <= info.upper:
        raise ArgumentError(f"{where} {info.name}: expected at most {info.upper:g}, got {whole!r}")


def _wrong(value: Any, info: FieldInfo, where: str) -> ArgumentError:
    return ArgumentError(f"{where} {info.name}: expected {info.type_name}, got {value!r}")


def _convert(value: Any, kind: Any) -> Any:
    kind, optional = alternatives(kind)
    if type(value) is kind and kind in _EXACT:
        return value
    if optional and (value is None or value == "None"):
        return None
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        if type(value) is tuple and inner in _EXACT and all([type(v) is inner for v in value]):
            return value
        if isinstance(value, str):
            value = _numbers(value) if alternatives(inner)[0] is float else _literal(value)
        if not hasattr(value, "__iter__"):
            value = (value,)
        return tuple(_convert(v, inner) for v in value)
    if kind is bool:
        return _boolean(value)
    if kind is int:
        return _integer(value)
    if kind is float:
        return float(value)
    if kind is str:
        return _string(value)
    return value


def _numbers(text: str) -> Any:
    """The elements of a tuple of numbers, which may be `inf` and `nan`."""
    stripped = text.strip()
    if stripped[:1] + stripped[-1:] not in ("()", "[]") or len(text) > 100_000:
        return _literal(text)
    parts = [part.strip().rstrip("L") for part in stripped[1:-1].split(",")]
    return parts if parts[-1] else parts[:-1]


def _literal(text: str) -> Any:
    if len(text) > 100_000:
        raise ValueError("too long")
    stripped = text.strip()
    return ast.literal_eval(stripped.replace("L", "") if stripped[:1] in "([" else stripped)


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        lowered = value.strip().lower()
        if lowered in _TRUE:
            return True
        if lowered in _FALSE:
            return False
        raise ValueError(value)
    if value in (0, 1):
        return bool(value)
    raise ValueError(value)


def _integer(value: Any) -> int:
    if isinstance(value, str):
        text = value.strip().rstrip("L")
        if text.lower() in ("true", "false"):
            return int(text.lower() == "true")
        value = int(text) if "." not in text and "e" not in text.lower() else float(text)
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError(value)
        return int(value)
    return int(value.__index__())


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (type, int)) or hasattr(value, "char"):
        return dtypes.name(dtypes.code(value))  # dtype=np.float32
    return str(value)
