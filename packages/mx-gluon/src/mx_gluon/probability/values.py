# SPDX-License-Identifier: Apache-2.0
"""Arithmetic that broadcasts, the same for numbers, NDArrays and symbols.

Formulas of distributions are written once with `Value`. Numbers are computed at once and stay numbers, NDArrays are
computed by operators, and symbols make graphs. `mx.sym` itself does not broadcast in `+`, `-`, `*` and `/`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd
from mx_symbol import sym
from mx_symbol.symbol import Symbol

EULER_GAMMA = float(np.euler_gamma)
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def namespace(raw: Any) -> Any:
    """`mx_symbol.sym` for a symbol, `mx_ndarray.nd` for anything else."""
    return sym if isinstance(raw, Symbol) else nd


class Value:
    """A number, an NDArray or a symbol, with operators that broadcast.

    Threads: never changes; any may use one.

    Parameters
    ----------
    raw : number, NDArray, Symbol or Value

    Raises
    ------
    ArgumentError  it is something else
    """

    __slots__ = ("raw",)
    raw: Any

    def __init__(self, raw: Any) -> None:
        if isinstance(raw, Value):
            raw = raw.raw
        elif isinstance(raw, (Real, np.generic)):
            raw = float(raw)
        elif not isinstance(raw, (NDArray, Symbol)):
            raise ArgumentError(
                f"[probability] expected a number, an NDArray or a symbol, got {raw!r} of type {type(raw).__name__}; "
                "nd.array(...) makes an NDArray"
            )
        self.raw = raw

    @property
    def is_number(self) -> bool:
        """Whether it is neither an NDArray nor a symbol."""
        return isinstance(self.raw, float)

    def __repr__(self) -> str:
        return f"Value({self.raw!r})"

    def _with(self, other: Any, name: str, plain: Callable[[Any, Any], Any], turned: bool = False) -> Value:
        a, b = self, Value(other)
        if turned:
            a, b = b, a
        if a.is_number and b.is_number:
            with np.errstate(all="ignore"):  # infinities and NaN are results
                return Value(plain(np.float64(a.raw), np.float64(b.raw)))
        if a.is_number or b.is_number:
            return Value(plain(a.raw, b.raw))
        if isinstance(a.raw, Symbol) != isinstance(b.raw, Symbol):
            raise ArgumentError(
                "[probability] NDArrays and symbols are mixed; in hybrid_forward, make arrays by F or give numbers"
            )
        return Value(getattr(namespace(a.raw), "broadcast_" + name)(a.raw, b.raw))

    def __add__(self, other: Any) -> Value:
        return self._with(other, "add", operator.add)

    def __radd__(self, other: Any) -> Value:
        return self._with(other, "add", operator.add, True)

    def __sub__(self, other: Any) -> Value:
        return self._with(other, "sub", operator.sub)

    def __rsub__(self, other: Any) -> Value:
        return self._with(other, "sub", operator.sub, True)

    def __mul__(self, other: Any) -> Value:
        return self._with(other, "mul", operator.mul)

    def __rmul__(self, other: Any) -> Value:
        return self._with(other, "mul", operator.mul, True)

    def __truediv__(self, other: Any) -> Value:
        return self._with(other, "div", operator.truediv)

    def __rtruediv__(self, other: Any) -> Value:
        return self._with(other, "div", operator.truediv, True)

    def __pow__(self, other: Any) -> Value:
        return self._with(other, "power", operator.pow)

    def __rpow__(self, other: Any) -> Value:
        return self._with(other, "power", operator.pow, True)

    def __neg__(self) -> Value:
        return Value(-self.raw)

    # comparisons are 1 where they hold, 0 elsewhere
    def __lt__(self, other: Any) -> Value:
        return self._with(other, "lesser", operator.lt)

    def __le__(self, other: Any) -> Value:
        return self._with(other, "lesser_equal", operator.le)

    def __gt__(self, other: Any) -> Value:
        return self._with(other, "greater", operator.gt)

    def __ge__(self, other: Any) -> Value:
        return self._with(other, "greater_equal", operator.ge)

    def equals(self, other: Any) -> Value:
        """1 where both are equal, 0 elsewhere."""
        return self._with(other, "equal", operator.eq)

    def sum(self, axis: int | Sequence[int], keepdims: bool = False) -> Value:
        """The sum along axes."""
        return Value(namespace(self.raw).sum(self.raw, axis=axis, keepdims=keepdims))

    def max(self, axis: int, keepdims: bool = False) -> Value:
        """The maximum along an axis."""
        return Value(namespace(self.raw).max(self.raw, axis=axis, keepdims=keepdims))

    def expanded(self, axis: int) -> Value:
        """With a new axis of extent 1; a number stays one."""
        return self if self.is_number else Value(namespace(self.raw).expand_dims(self.raw, axis=axis))

    def apply(self, name: str, **options: Any) -> Value:
        """The result of an operator."""
        return Value(getattr(namespace(self.raw), name)(self.raw, **options))

    def zeros(self) -> Value:
        """Zeros of the shape and element type; 0 for a number."""
        return Value(0.0) if self.is_number else self.apply("zeros_like")

    def ones(self) -> Value:
        """Ones of the shape and element type; 1 for a number."""
        return Value(1.0) if self.is_number else self.apply("ones_like")

    def held(self) -> Value:
        """The same values, through which no gradient flows."""
        return self if self.is_number else self.apply("BlockGrad")


def _function(name: str, plain: Callable[[Any], Any] | None = None) -> Callable[[Any], Value]:
    """An elementwise operator; numbers are computed by `plain`, or in float64 by the operator."""

    def compute(given: Any) -> Value:
        value = Value(given)
        if not value.is_number:
            return value.apply(name)
        if plain is not None:
            with np.errstate(all="ignore"):
                return Value(plain(np.float64(value.raw)))
        return Value(getattr(nd, name)(nd.array([value.raw], dtype="float64")).asscalar())

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"`mx.nd.{name}` of a value."
    return compute


exp = _function("exp", np.exp)
expm1 = _function("expm1", np.expm1)
log = _function("log", np.log)
log1p = _function("log1p", np.log1p)
sqrt = _function("sqrt", np.sqrt)
absolute = _function("abs", np.abs)
sign = _function("sign", np.sign)
floor = _function("floor", np.floor)
tan = _function("tan", np.tan)
arctan = _function("arctan", np.arctan)
sigmoid = _function("sigmoid", lambda x: 1 / (1 + np.exp(-x)))
erf = _function("erf")
erfinv = _function("erfinv")
gammaln = _function("gammaln")
digamma = _function("digamma")


def softplus(given: Any) -> Value:
    """log(1 + exp(x)), without overflow."""
    value = Value(given)
    if value.is_number:
        return Value(np.logaddexp(0.0, value.raw))
    return value.apply("Activation", act_type="softrelu")


def at_least(value: Any, low: Any) -> Value:
    """The larger of both, element by element."""
    return Value(value)._with(low, "maximum", _larger)


def at_most(value: Any, high: Any) -> Value:
    """The smaller of both, element by element."""
    return Value(value)._with(high, "minimum", _smaller)


def _larger(a: Any, b: Any) -> Any:
    if isinstance(a, np.floating):
        return np.maximum(a, b)
    return namespace(a if isinstance(b, float) else b).maximum(a, b)


def _smaller(a: Any, b: Any) -> Any:
    if isinstance(a, np.floating):
        return np.minimum(a, b)
    return namespace(a if isinstance(b, float) else b).minimum(a, b)


def where(condition: Any, value: Any, other: Any) -> Value:
    """`value` where the condition is not 0, `other` elsewhere; no gradient flows to what is not taken."""
    c, a, b = Value(condition), Value(value), Value(other)
    if c.is_number:
        return a if c.raw else b
    zeros = c.zeros() + a.zeros() + b.zeros()
    return Value(namespace(zeros.raw).where((c + zeros).raw, (a + zeros).raw, (b + zeros).raw))


def times(factor: Any, value: Any) -> Value:
    """The product, which is 0 where `factor` is 0, even if the value is infinite or NaN."""
    weight, other = Value(factor), Value(value)
    return weight * where(weight.equals(0.0) * (1 - finite(other)), 0.0, other)


def x_log_y(x: Any, y: Any) -> Value:
    """x * log(y), which is 0 where both are 0, with no gradient to y there."""
    factor, other = Value(x), Value(y)
    return factor * log(where(factor.equals(0.0) * other.equals(0.0), 1.0, other))


def x_log1m_y(x: Any, y: Any) -> Value:
    """x * log(1 - y), which is 0 where x is 0 and y is 1, with no gradient to y there."""
    factor, other = Value(x), Value(y)
    return factor * log1p(-where(factor.equals(0.0) * other.equals(1.0), 0.0, other))


def finite(given: Any) -> Value:
    """1 where the value is neither infinite nor NaN, 0 elsewhere."""
    return absolute(given) < math.inf


def log_softmax(value: Value) -> Value:
    """The logarithm of softmax along the last axis."""
    return value.apply("log_softmax", axis=-1)


def log_sum_exp(value: Value, keepdims: bool = False) -> Value:
    """log(sum(exp(x))) along the last axis; terms may be minus infinity."""
    largest = value.held().max(-1, keepdims=True)
    largest = where(finite(largest), largest, 0.0)
    terms = exp(value - largest).sum(-1, keepdims=True)
    none = terms.equals(0.0)
    total = where(none, -math.inf, log(where(none, 1.0, terms)) + largest)
    return total if keepdims else total.sum(-1)


def one_hot(index: Value, depth: int, like: Value) -> Value:
    """One-hot vectors along a new last axis, in the element type of `like`."""
    F = namespace(index.raw)
    return as_type(Value(F.one_hot(index.raw, depth=depth, dtype="float64")), like)


def as_type(value: Value, like: Value) -> Value:
    """Values in the element type of `like`, a floating-point one that is not wider; numbers stay numbers."""
    if value.is_number or like.is_number:
        return value
    if isinstance(like.raw, NDArray):
        same = value.raw.dtype == like.raw.dtype
        return value if same else Value(value.raw.astype(like.raw.dtype))
    one = sym.BlockGrad(sym.sum(like.raw))  # the type alone matters
    return Value(sym.amp_multicast(value.raw, one, num_outputs=2, cast_narrow=True)[0])


def is_narrow(raw: Any) -> bool:
    """Whether it is an NDArray of a 16-bit floating-point type."""
    return isinstance(raw, NDArray) and raw.dtype.__name__ in ("float16", "bfloat16")


def widened(value: Value) -> Value:
    """Values of 16 bits in float32, others as they are, and so symbols, whose type shows later."""
    if isinstance(value.raw, Symbol):
        return Value(sym.amp_multicast(value.raw, sym.zeros(shape=(1,)), num_outputs=2)[0])
    return Value(value.raw.astype("float32")) if is_narrow(value.raw) else value


def doubled(value: Value) -> Value:
    """Values in float64; a number stays one."""
    if value.is_number:
        return value
    return Value(namespace(value.raw).cast(value.raw, dtype="float64"))


def smallest(like: Value) -> Value:
    """The least positive number of the element type; in float32, bfloat16 and float64 one of the least."""
    least = like.zeros() + 1.2e-38
    return least + least.equals(0.0) * 6e-8  # float16


def below_one(like: Value, *steps: float) -> Value:
    """1 less the first of the steps that is not lost in the element type, or of those of float16 and bfloat16."""
    found = like.ones()
    for step in (*steps, 2.0**-11, 2.0**-8):
        found = found - found.equals(1.0) * step
    return found


def spread(value: Value, shape: Sequence[int], F: Any, inner: int = 0) -> Value:
    """A value broadcast to a shape, with that many axes after it; a number becomes an array of float32, made by `F`.

    Raises
    ------
    ArgumentError  an NDArray does not broadcast to the shape
    """
    shape = tuple(shape)
    raw, ones = value.raw, (1,) * inner
    if isinstance(raw, Symbol):
        widened = sym.amp_multicast(raw, sym.zeros(shape=shape + ones, dtype="float16"), num_outputs=2)
        return Value(sym.broadcast_add(widened[0], widened[1]))
    if not isinstance(raw, NDArray):
        return Value(F.zeros(shape=shape + ones) + raw)
    outer = raw.shape[: max(len(raw.shape) - inner, 0)]
    pairs = zip(reversed(outer), reversed(shape))
    if len(outer) > len(shape) or any(have not in (1, want) for have, want in pairs):
        raise ArgumentError(
            f"[probability] parameters of shape {outer} do not broadcast to {shape}; the parameters' shape comes last"
        )
    return Value(nd.broadcast_add(raw, nd.zeros(shape + ones, dtype=raw.dtype, ctx=raw.context)))


def prepended(zeros: Value, extents: Sequence[int]) -> Value:
    """Zeros with more axes in front."""
    for extent in reversed(tuple(extents)):
        zeros = zeros.expanded(0).apply("broadcast_axis", axis=0, size=extent)
    return zeros


def sum_right_most(given: Any, count: int) -> Value:
    """The sum over the last axes; a number stays one if there are none."""
    value = Value(given)
    return value.sum(tuple(range(-count, 0))) if count > 0 else value


def normal(zeros: Value) -> Value:
    """Standard normal numbers of the shape and element type."""
    return Value(namespace(zeros.raw).random.normal_like(zeros.raw)).held()


def uniform(zeros: Value) -> Value:
    """Numbers from 0 to less than 1 of the shape and element type."""
    return Value(namespace(zeros.raw).random.uniform_like(zeros.raw)).held()


def exponential(zeros: Value) -> Value:
    """Exponential numbers of mean 1, which are never 0, of the shape and element type."""
    drawn = Value(namespace(zeros.raw).random.exponential_like(zeros.raw)).held()
    return at_least(drawn, 1e-30)


def gamma(shape: Any, zeros: Value) -> Value:
    """Gamma numbers of scale 1; `shape` broadcasts with the zeros."""
    return as_type(_gamma(doubled((Value(shape) + zeros).held())), zeros)


def log_gamma(shape: Any, zeros: Value) -> Value:
    """Logarithms of gamma numbers of scale 1, in float64; the numbers themselves are 0 for small shapes.

    `shape` broadcasts with the zeros.
    """
    alpha = doubled((Value(shape) + zeros).held())
    return log(_gamma(alpha + 1)) - exponential(alpha.zeros()) / alpha


def _gamma(alpha: Value) -> Value:
    F = namespace(alpha.raw)
    return Value(F.random.gamma(alpha.raw, alpha.ones().raw, dtype="float64")).held()


def poisson(rate: Any, zeros: Value) -> Value:
    """Poisson numbers; `rate` broadcasts with the zeros."""
    mean = (Value(rate) + zeros).held()
    return as_type(Value(namespace(mean.raw).random.poisson(mean.raw, dtype="float64")).held(), zeros)
