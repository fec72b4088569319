# SPDX-License-Identifier: Apache-2.0
"""Functions of two arrays: of equal shape (`elemwise_`, `_maximum`), broadcasting, and with a number."""

from __future__ import annotations

from collections.abc import Callable

from mx_core import expression as X
from mx_core.expression import Traced
from mx_core.operator import SimpleOp
from mx_operators.elementwise.make import elementwise, scalar_operator

_BOTH = ("lhs", "rhs")
_Function = Callable[[Traced, Traced], Traced]


def _pair(
    name: str, function: _Function, doc: str, aliases: tuple[str, ...] = (), *,
    broadcast: bool = False, differentiable: bool = True,
) -> type[SimpleOp]:  # fmt: skip
    return elementwise(
        name, lambda p, lhs, rhs: function(lhs, rhs), doc=doc, arguments=_BOTH, aliases=aliases,
        broadcast=broadcast, differentiable=differentiable,
    )  # fmt: skip


def _add(a: Traced, b: Traced) -> Traced:
    return a + b


def _sub(a: Traced, b: Traced) -> Traced:
    return a - b


def _mul(a: Traced, b: Traced) -> Traced:
    return a * b


def _div(a: Traced, b: Traced) -> Traced:
    return a / b


def _mod(a: Traced, b: Traced) -> Traced:
    return a % b


_SMOOTH: dict[str, tuple[_Function, str]] = {
    "mod": (_mod, "Remainder with the sign of the divisor; 0 for divisor 0."),
    "power": (X.power, "lhs to the power rhs."),
    "maximum": (X.maximum, "The larger one."),
    "minimum": (X.minimum, "The smaller one."),
    "hypot": (X.hypot, "√(lhs² + rhs²)."),
}
_FLAT: dict[str, tuple[_Function, str]] = {
    "equal": (lambda a, b: a == b, "1 where equal."),
    "not_equal": (lambda a, b: a != b, "1 where different."),
    "greater": (lambda a, b: a > b, "1 where lhs > rhs."),
    "greater_equal": (lambda a, b: a >= b, "1 where lhs ≥ rhs."),
    "lesser": (lambda a, b: a < b, "1 where lhs < rhs."),
    "lesser_equal": (lambda a, b: a <= b, "1 where lhs ≤ rhs."),
    "logical_and": (X.logical_and, "1 where both are non-zero."),
    "logical_or": (X.logical_or, "1 where either is non-zero."),
    "logical_xor": (X.logical_xor, "1 where exactly one is non-zero."),
}


def _camel(name: str, separator: str = "") -> str:
    return separator.join(part.title() for part in name.split("_"))


def _same_shape() -> list[type[SimpleOp]]:
    made = [
        _pair("elemwise_add", _add, "lhs + rhs.", ("_plus", "_add", "_Plus")),
        _pair("elemwise_sub", _sub, "lhs − rhs.", ("_minus", "_sub", "_Minus")),
        _pair("elemwise_mul", _mul, "lhs · rhs.", ("_mul", "_Mul")),
        _pair("elemwise_div", _div, "lhs / rhs.", ("_div", "_Div")),
        _pair("_grad_add", _add, "Sum of two contributions to a gradient."),
    ]
    for name, (function, doc) in _SMOOTH.items():
        made.append(_pair(f"_{name}", function, doc, (f"_{_camel(name)}",)))
    for name, (function, doc) in _FLAT.items():
        aliases = (f"_{_camel(name, '_')}",)
        made.append(_pair(f"_{name}", function, doc, aliases, differentiable=False))
    return made


def _broadcasting() -> list[type[SimpleOp]]:
    made = [
        _pair("broadcast_add", _add, "lhs + rhs.", ("broadcast_plus",), broadcast=True),
        _pair("broadcast_sub", _sub, "lhs − rhs.", ("broadcast_minus",), broadcast=True),
        _pair("broadcast_mul", _mul, "lhs · rhs.", broadcast=True),
        _pair("broadcast_div", _div, "lhs / rhs.", broadcast=True),
    ]
    for name, (function, doc) in _SMOOTH.items():
        made.append(_pair(f"broadcast_{name}", function, doc, broadcast=True))
    for name, (function, doc) in _FLAT.items():
        made.append(_pair(f"broadcast_{name}", function, doc, broadcast=True, differentiable=False))
    return made


def _with_number() -> list[type[SimpleOp]]:
    smooth: tuple[tuple[str, _Function, str, str], ...] = (
        ("plus", _add, "x + scalar.", "_PlusScalar"),
        ("minus", _sub, "x − scalar.", "_MinusScalar"),
        ("rminus", lambda x, s: s - x, "scalar − x.", "_RMinusScalar"),
        ("mul", _mul, "x · scalar.", "_MulScalar"),
        ("div", _div, "x / scalar.", "_DivScalar"),
        ("rdiv", lambda x, s: s / x, "scalar / x.", "_RDivScalar"),
        ("mod", _mod, "x modulo scalar.", "_ModScalar"),
        ("rmod", lambda x, s: s % x, "scalar modulo x.", "_RModScalar"),
        ("power", X.power, "x to the power scalar.", "_PowerScalar"),
        ("rpower", lambda x, s: X.power(s, x), "scalar to the power x.", "_RPowerScalar"),
        ("maximum", X.maximum, "The larger of x and scalar.", "_MaximumScalar"),
        ("minimum", X.minimum, "The smaller of x and scalar.", "_MinimumScalar"),
        ("hypot", X.hypot, "√(x² + scalar²).", "_HypotScalar"),
    )
    made = [scalar_operator(f"_{n}_scalar", f, doc, alias) for n, f, doc, alias in smooth]
    for name, (function, doc) in _FLAT.items():
        text = doc.replace("lhs", "x").replace("rhs", "scalar")
        alias = f"_{_camel(name)}Scalar"
        made.append(scalar_operator(f"_{name}_scalar", function, text, alias, differentiable=False))
    return made


FUNCTIONS = (*_same_shape(), *_broadcasting(), *_with_number())
