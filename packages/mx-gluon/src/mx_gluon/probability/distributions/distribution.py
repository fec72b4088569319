# SPDX-License-Identifier: Apache-2.0
"""Distribution: parameters, samples, densities and moments."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar

from mx_core.errors import ArgumentError, DTypeError
from mx_gluon.probability.constraint import Constraint, _Bounded
from mx_gluon.probability.utils import getF
from mx_gluon.probability.values import (
    Value,
    as_type,
    exp,
    is_narrow,
    prepended,
    spread,
    sqrt,
    where,
    widened,
)
from mx_ndarray import NDArray, nd
from mx_symbol import sym
from mx_symbol.symbol import Symbol


class Distribution:
    """A distribution, or one per element of its parameters, which broadcast with each other.

    Parameters are numbers, NDArrays or, in `hybrid_forward`, symbols. So are the results: what depends on numbers alone
    is a number. A subclass defines `_log_prob`, `_draw` and other methods. Arguments of class `Value` are float32 in
    place of float16 and bfloat16; results are rounded once.

    Threads: any may use one whose parameters no other writes.

    Parameters
    ----------
    F : module
        `mx_ndarray.nd` or `mx_symbol.sym`; found from the parameters.
    event_dim : int
        Number of axes of one outcome: 0 for a number, 1 for a vector.
    validate_args : bool
        Check parameters now and values later, which blocks until they are computed. Symbols are not checked.

    Raises
    ------
    ArgumentError  a parameter is neither a number, an NDArray nor a symbol; with `validate_args`: it is not allowed
    DTypeError     an NDArray of integers is a parameter

    Attributes
    ----------
    has_grad : bool
        Whether gradients flow through samples to the parameters.
    has_enumerate_support : bool
    support : Constraint
        What outcomes can be.
    arg_constraints : dict of Constraint
        What parameters can be.
    """

    has_grad = False
    has_enumerate_support = False
    support: Any = None
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    _validate_args = False
    #: number of the last axes of parameters that belong to one outcome
    _event_axes = 0
    #: whether formulas get parameters and values of 16 bits in float32
    _computes_wide = True

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Sets whether distributions made from now on check their arguments, if they are not told.

        Raises
        ------
        ArgumentError  it is neither True nor False
        """
        if value is not True and value is not False:
            raise ArgumentError(f"[Distribution] validate_args: expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, F: Any = None, event_dim: int | None = None, validate_args: bool | None = None
    ) -> None:
        params = self._given()
        self._symbolic = (getF(*params.values()) if F is None else F) is sym
        self.event_dim = event_dim
        if validate_args is not None:
            self._validate_args = validate_args
        for name, param in params.items():
            Value(param)  # refuses what is no number, array or symbol
            if isinstance(param, NDArray) and not _is_floating(param):
                raise DTypeError(
                    f"[{type(self).__name__}] {name}: expected a floating-point type, got {param.dtype.__name__}; "
                    'convert with astype("float32")'
                )
        if self._validate_args:
            for name, param in params.items():
                self.arg_constraints[name].check(param, f"[{type(self).__name__}] {name}")

    @property
    def F(self) -> Any:
        """`mx_ndarray.nd` or `mx_symbol.sym`."""
        return sym if self._symbolic else nd

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={_described(param)}" for name, param in self._given().items())
        return f"{type(self).__name__}({params})"

    def _given(self) -> dict[str, Any]:
        """Parameters that were given or computed, by name."""
        return {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}

    # ---- densities ----

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density or probability of a value.

        Parameters
        ----------
        value : number, NDArray or Symbol
            Broadcasts with the parameters. Integers are converted, to float32 beside parameters of 16 bits.

        Raises
        ------
        ArgumentError  with `validate_args`: the value is outside of the support
        NotImplementedError  there is no formula
        """
        return self._computed("_log_density", self._checked(value))

    def _log_density(self, x: Value) -> Value:
        """`_log_prob`, but minus infinity outside of the support."""
        if not isinstance(self.support, _Bounded) or self.event_dim:
            return self._log_prob(x)
        outside = self.support.outside(x)
        return where(outside, float("-inf"), self._log_prob(self.support.brought(x, outside)))

    def pdf(self, value: Any) -> Any:
        """The density or probability of a value."""
        return exp(self.log_prob(value)).raw

    def cdf(self, value: Any) -> Any:
        """The probability of an outcome up to a value.

        Raises
        ------
        NotImplementedError  there is no formula
        """
        return self._computed("_clipped_cdf", self._checked(value, False))

    def _clipped_cdf(self, x: Value) -> Value:
        """`_cdf`, of the nearest bound of the support for what is outside."""
        return self._cdf(self.support.clipped(x) if isinstance(self.support, _Bounded) else x)

    def icdf(self, value: Any) -> Any:
        """The outcome up to which the probability is `value`.

        Raises
        ------
        NotImplementedError  there is no formula
        """
        return self._computed("_icdf", self._checked(value, False))

    def entropy(self) -> Any:
        """The entropy in nats.

        Raises
        ------
        NotImplementedError  there is no formula
        """
        return self._computed("_entropy")

    def perplexity(self) -> Any:
        """exp of the entropy."""
        return exp(self.entropy()).raw

    def _wide(self) -> Any:
        """The distribution with parameters and other attributes of 16 bits in float32."""
        wide = {
            name: widened(Value(value)).raw
            for name, value in self.__dict__.items()
            if is_narrow(value) or isinstance(value, Symbol)
        }
        if not wide:
            return self
        made = copy.copy(self)
        made.__dict__.update(wide)
        return made

    def _like(self) -> Value:
        """The first parameter that is no number; a number if all are."""
        found = [param for param in map(Value, self._given().values()) if not param.is_number]
        return found[0] if found else Value(0.0)

    def _computed(self, formula: str, *given: Value) -> Any:
        """The result of a method in the element type of the parameters, or of what is given if they are numbers."""
        if not self._computes_wide:
            return getattr(self, formula)(*given).raw
        found = getattr(self._wide(), formula)(*map(widened, given))
        like = self._like()
        return as_type(found, given[0] if like.is_number and given else like).raw

    # ---- samples ----

    def sample(self, size: int | Sequence[int] | None = None) -> Any:
        """Draws outcomes.

        Parameters
        ----------
        size : int or shape
            Shape of the parameters after broadcasting, and of the outcomes, but for axes of one outcome. By default
            that of the parameters; (1,) if they are numbers.

        Returns
        -------
        NDArray or Symbol
            In the element type of the parameters; float32 if they are numbers. Events of `Categorical` are float32
            beside parameters of 16 bits, too, which cannot tell many events apart.

        Raises
        ------
        ArgumentError  `size` is neither an integer nor a shape
        """
        zeros = self._zeros()
        if shape := _shape(size):
            zeros = spread(zeros, shape, self.F, self._event_axes)
        return self._sampled(self._full(zeros))

    def sample_n(self, size: int | Sequence[int] | None = None) -> Any:
        """Draws that many times the outcomes of `sample()`, along axes in front of the parameters' axes."""
        extents = _shape(size)
        zeros = self._zeros()
        if zeros.is_number:
            return self._sampled(self._full(spread(zeros, extents or (1,), self.F)))
        return self._sampled(self._full(prepended(zeros, extents)))

    def _zeros(self) -> Value:
        """Zeros of the shape of the parameters together; a number if all are."""
        found = Value(0.0)
        for param in self._given().values():
            found = found + Value(param).zeros()
        return found

    def _batch_zeros(self) -> Value:
        """Zeros of that shape without the axes of one outcome."""
        zeros = self._zeros()
        return zeros.sum(tuple(range(-self._event_axes, 0))) if self._event_axes else zeros

    def _full(self, zeros: Value) -> Value:
        if not zeros.is_number:
            return zeros
        return Value(self.F.zeros(shape=(1,)))

    def _sampled(self, zeros: Value) -> Any:
        drawn = self._rounded(self._wide()._draw(widened(zeros)), zeros)
        return drawn.raw if self.has_grad else drawn.held().raw

    def _rounded(self, drawn: Value, zeros: Value) -> Value:
        """Outcomes in the element type of the zeros, within open bounds of the support."""
        drawn = as_type(drawn, zeros)
        bounded = isinstance(self.support, _Bounded) and not self.event_dim
        return self.support.kept_within(drawn) if bounded else drawn

    def _draw_like(self, batch: Value) -> Value:
        """Outcomes for zeros with which the parameters broadcast, without the axes of one outcome."""
        for _ in range(self._event_axes):
            batch = batch.expanded(-1)
        return Value(self._sampled(self._zeros() + batch))

    # ---- other distributions and moments ----

    def broadcast_to(self, batch_shape: int | Sequence[int]) -> Any:
        """The distribution with parameters broadcast to a shape, without the axes of one outcome.

        Numbers stay numbers beside arrays.
        """
        return self._broadcast(_shape(batch_shape), 0)

    def _broadcast(self, shape: tuple[int, ...], inner: int) -> Any:
        """With parameters broadcast to a shape that has so many axes after it, and those of one outcome."""
        made = copy.copy(self)
        values = {name: Value(param) for name, param in self._given().items()}
        only_numbers = all(value.is_number for value in values.values())
        for name, value in values.items():
            if only_numbers or not value.is_number:
                axes = inner + self._axes_of(name)
                made.__dict__[name] = spread(value, shape, self.F, axes).raw
        return made

    def _axes_of(self, name: str) -> int:
        """The number of the last axes of a parameter that belong to one outcome."""
        return self._event_axes

    def enumerate_support(self) -> Any:
        """All outcomes along a new first axis.

        Raises
        ------
        NotImplementedError  `has_enumerate_support` is False
        """
        raise self._missing("enumerate_support")

    @property
    def mean(self) -> Any:
        """The mean; infinite or NaN where there is none."""
        return self._computed("_mean")

    @property
    def variance(self) -> Any:
        """The variance; infinite or NaN where there is none."""
        return self._computed("_variance")

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self._computed("_stddev")

    # ---- what subclasses define ----

    def _log_prob(self, x: Value) -> Value:
        raise self._missing("log_prob")

    def _cdf(self, x: Value) -> Value:
        raise self._missing("cdf")

    def _icdf(self, p: Value) -> Value:
        raise self._missing("icdf")

    def _entropy(self) -> Value:
        raise self._missing("entropy")

    def _mean(self) -> Value:
        raise self._missing("mean")

    def _variance(self) -> Value:
        raise self._missing("variance")

    def _stddev(self) -> Value:
        return sqrt(self._variance())

    def _draw(self, zeros: Value) -> Value:
        """Outcomes in the shape and element type of the zeros, with which parameters broadcast."""
        raise self._missing("sample")

    def _values(self, *names: str) -> tuple[Value, ...]:
        return tuple(Value(getattr(self, name)) for name in names)

    def _missing(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"[{type(self).__name__}] there is no formula for {what}")

    def _checked(self, value: Any, outcome: bool = True) -> Value:
        if isinstance(value, NDArray) and not _is_floating(value):
            arrays = [each for each in self._given().values() if isinstance(each, NDArray)]
            value = value.astype("float32" if not arrays or is_narrow(arrays[0]) else arrays[0].dtype)
        if outcome:
            self._validate_samples(value)
        return Value(value)

    def _validate_samples(self, value: Any) -> None:
        if self._validate_args and self.support is not None:
            self.support.check(value, f"[{type(self).__name__}] value")


def _shape(size: int | Sequence[int] | None) -> tuple[int, ...]:
    """A shape; () for None."""
    if size is None:
        return ()
    extents = size if isinstance(size, (tuple, list)) else (size,)
    if not all(isinstance(each, Integral) and int(each) >= 0 for each in extents):
        raise ArgumentError(
            f"[probability] size: expected an integer from 0 or a shape of them, got {size!r}"
        )
    return tuple(map(int, extents))


def _is_floating(array: NDArray) -> bool:
    return array.dtype.__name__ in ("float16", "bfloat16", "float32", "float64")


def _described(param: Any) -> str:
    if isinstance(param, NDArray):
        return f"<{param.dtype.__name__} of shape {param.shape}>"
    return repr(param.name) if isinstance(param, Symbol) else repr(param)
