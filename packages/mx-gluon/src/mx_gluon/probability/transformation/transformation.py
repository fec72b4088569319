# SPDX-License-Identifier: Apache-2.0
"""Transformations of values, with the logarithms of their Jacobians' determinants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.block import HybridBlock
from mx_gluon.probability.constraint import Positive, UnitInterval, _Bounded
from mx_gluon.probability.utils import cached_property
from mx_gluon.probability.values import (
    Value,
    absolute,
    at_least,
    at_most,
    below_one,
    exp,
    log,
    log1p,
    log_softmax,
    sigmoid,
    sign,
    softplus,
    sum_right_most,
)
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.symbol import Symbol

_EPSILON = 1.1920929e-07


class Transformation:
    """A function y = t(x) with an inverse and a Jacobian.

    A subclass defines `_forward_compute`, `_inverse_compute` and `log_det_jacobian`.

    Threads: any may use one that no other changes.

    Attributes
    ----------
    bijective : bool
    event_dim : int
        Number of the last axes that are transformed together: 0 for one number after the other.
    sign : int, NDArray or Symbol
        1 where it increases, -1 where it decreases.
    F : module
        `mx_ndarray.nd` or `mx_symbol.sym`; `TransformedDistribution` sets it to that of its base.
    """

    bijective = False
    event_dim: Any = 0
    _symbolic = False
    #: what y can be; None if it can be anything
    _image: _Bounded | None = None

    def __init__(self, F: Any = nd) -> None:
        self.F = F
        super().__init__()

    @property
    def F(self) -> Any:
        """`mx_ndarray.nd` or `mx_symbol.sym`."""
        return sym if self._symbolic else nd

    @F.setter
    def F(self, F: Any) -> None:
        self._symbolic = F is sym  # modules cannot be pickled

    @property
    def sign(self) -> Any:
        """1 where it increases, -1 where it decreases.

        Raises
        ------
        NotImplementedError  it does neither
        """
        raise self._missing("sign")

    @property
    def inv(self) -> Transformation:
        """The inverse."""
        return _Inverse(self)

    def __call__(self, x: Any) -> Any:
        """The transformed value."""
        return self._forward_compute(x)

    def _inv_call(self, y: Any) -> Any:
        return self._inverse_compute(y)

    def _forward_compute(self, x: Any) -> Any:
        raise self._missing("_forward_compute")

    def _inverse_compute(self, y: Any) -> Any:
        raise self._missing("_inverse_compute")

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |dy / dx|, where y is the transformed x.

        Raises
        ------
        NotImplementedError  there is no formula
        """
        raise self._missing("log_det_jacobian")

    def _missing(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"[{type(self).__name__}] there is no formula for {what}")


class _Inverse(Transformation):
    """The inverse of a transformation, which it keeps."""

    def __init__(self, forward: Transformation) -> None:
        super().__init__()
        self._forward = forward

    @property
    def inv(self) -> Transformation:
        return self._forward

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._forward.bijective

    @property
    def event_dim(self) -> int:
        return int(self._forward.event_dim)

    @property
    def sign(self) -> Any:
        return self._forward.sign

    def _forward_compute(self, x: Any) -> Any:
        return self._forward._inverse_compute(x)

    def _inverse_compute(self, y: Any) -> Any:
        return self._forward._forward_compute(y)

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        return (-Value(self._forward.log_det_jacobian(y, x))).raw


class TransformBlock(Transformation, HybridBlock):
    """A transformation with parameters of its own, such as a layer of a normalising flow.

    `parameters_for(x)` gives their values, or their variables where x is a symbol.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    prefix, params : as in `Block`
    """

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        HybridBlock.__init__(self, prefix=prefix, params=params)
        self.F = nd

    def parameters_for(self, x: Any) -> dict[str, Any]:
        """Its own parameters by the names of their attributes, on the context of an NDArray or as symbols."""
        if isinstance(x, Symbol):
            return {name: param.var() for name, param in self._reg_params.items()}
        return {name: param.data(x.context) for name, param in self._reg_params.items()}


class ComposeTransform(Transformation):
    """Transformations one after the other.

    Threads: as `Transformation`.

    Parameters
    ----------
    parts : sequence of Transformation
        The first is applied first. None of them is the identity.
    """

    def __init__(self, parts: Sequence[Transformation]) -> None:
        self._parts = list(parts)
        for part in self._parts:
            if not isinstance(part, Transformation):
                raise ArgumentError(f"[ComposeTransform] parts: expected Transformations, got {part!r}")
        super().__init__(self._parts[0].F if self._parts else nd)

    @property
    def F(self) -> Any:
        """`mx_ndarray.nd` or `mx_symbol.sym`; setting it sets that of the parts."""
        return sym if self._symbolic else nd

    @F.setter
    def F(self, F: Any) -> None:
        self._symbolic = F is sym
        for part in self._parts:
            part.F = F

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(part.bijective for part in self._parts)

    @property
    def sign(self) -> Any:
        """The product of the parts' signs."""
        product = Value(1.0)
        for part in self._parts:
            product = product * part.sign
        return product.raw

    @cached_property
    def event_dim(self) -> int:
        """The largest of the parts."""
        return max((part.event_dim for part in self._parts), default=0)

    @property
    def inv(self) -> Transformation:
        """The inverses of the parts, the last first."""
        return ComposeTransform([part.inv for part in reversed(self._parts)])

    def _forward_compute(self, x: Any) -> Any:
        for part in self._parts:
            x = part(x)
        return x

    def _inverse_compute(self, y: Any) -> Any:
        for part in reversed(self._parts):
            y = part._inverse_compute(y)
        return y

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of the parts' logarithms."""
        total = sum_right_most(Value(x).zeros(), self.event_dim)
        for part in self._parts:
            following = part(x)
            total = total + sum_right_most(
                part.log_det_jacobian(x, following), self.event_dim - part.event_dim
            )
            x = following
        return total.raw


class ExpTransform(Transformation):
    """y = exp(x).

    Threads: as `Transformation`.
    """

    bijective = True
    sign = 1
    _image = Positive()

    def _forward_compute(self, x: Any) -> Any:
        return exp(x).raw

    def _inverse_compute(self, y: Any) -> Any:
        return log(y).raw

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        """x."""
        return x


class AffineTransform(Transformation):
    """y = loc + scale * x.

    Threads: as `Transformation`.

    Parameters
    ----------
    loc, scale : number, NDArray or Symbol
    event_dim : int
        Number of the last axes that belong to one outcome.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0) -> None:
        super().__init__()
        self._loc = loc
        self._scale = scale
        self.event_dim = event_dim

    @property
    def sign(self) -> Any:
        """The sign of `scale`."""
        return sign(self._scale).raw

    def _forward_compute(self, x: Any) -> Any:
        return (Value(self._loc) + Value(self._scale) * x).raw

    def _inverse_compute(self, y: Any) -> Any:
        return ((Value(y) - self._loc) / self._scale).raw

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |scale|, summed over the axes of one outcome."""
        per_element = Value(x).zeros() + log(absolute(self._scale))
        return sum_right_most(per_element, self.event_dim).raw


class PowerTransform(Transformation):
    """y = x**exponent, for x from 0.

    Threads: as `Transformation`.

    Parameters
    ----------
    exponent : number, NDArray or Symbol
    """

    bijective = True
    _image = Positive()

    def __init__(self, exponent: Any) -> None:
        super().__init__()
        self._exponent = exponent

    @property
    def sign(self) -> Any:
        """The sign of the exponent."""
        return sign(self._exponent).raw

    def _forward_compute(self, x: Any) -> Any:
        return (Value(x) ** self._exponent).raw

    def _inverse_compute(self, y: Any) -> Any:
        return (Value(y) ** (1 / Value(self._exponent))).raw

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |exponent * y / x|."""
        return log(absolute(Value(self._exponent) * y / x)).raw


class SigmoidTransform(Transformation):
    """y = 1 / (1 + exp(-x)), kept away from 0 by 2**-23, and from 1 by that or a step of the element type.

    Threads: as `Transformation`.
    """

    bijective = True
    sign = 1
    _image = UnitInterval()

    def _clipped(self, y: Any) -> Value:
        return at_most(at_least(y, _EPSILON), below_one(Value(y), _EPSILON))

    def _forward_compute(self, x: Any) -> Any:
        return self._clipped(sigmoid(x)).raw

    def _inverse_compute(self, y: Any) -> Any:
        clipped = self._clipped(y)
        return (log(clipped) - log1p(-clipped)).raw

    def log_det_jacobian(self, x: Any, y: Any) -> Any:
        """log(y * (1 - y))."""
        return (-softplus(-Value(x)) - softplus(x)).raw


class SoftmaxTransform(Transformation):
    """y = softmax(x) along the last axis. The inverse is log(y), which is one of many.

    Threads: as `Transformation`.
    """

    event_dim = 1

    def _forward_compute(self, x: Any) -> Any:
        return exp(log_softmax(Value(x))).raw

    def _inverse_compute(self, y: Any) -> Any:
        return log(y).raw


class AbsTransform(Transformation):
    """y = |x|. The inverse is y, which is one of two.

    Threads: as `Transformation`.
    """

    def _forward_compute(self, x: Any) -> Any:
        return absolute(x).raw

    def _inverse_compute(self, y: Any) -> Any:
        return y
