# SPDX-License-Identifier: Apache-2.0
"""Layers without parameters: dropout, reshaping, padding, and functions as blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.block import Block, HybridBlock
from mx_gluon.errors import RefusedError
from mx_ndarray import nd
from mx_symbol import sym


class Dropout(HybridBlock):
    """In training, zeros a share of the elements and scales the others; outside of it x.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    rate : float
        Share of zeros.
    axes : sequence of int
        Along which all elements are zero or none is.
    """

    def __init__(self, rate: float, axes: Sequence[int] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate = rate
        self._axes = axes

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The elements that are left, scaled."""
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd", cudnn_off=False)
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Flatten(HybridBlock):
    """All axes but the first as one.

    Threads: as `HybridBlock`.

    Shapes: x (N, a, b, …), output (N, a·b·…).
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The same elements."""
        return F.flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


class ReflectionPad2D(HybridBlock):
    """Images with a border that mirrors what is inside.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    padding : int or 8 ints
        Pixels on all four sides; or before and after for each of the axes (N, C, H, W).

    Raises
    ------
    RefusedError  another number of integers
    """

    def __init__(self, padding: int | Sequence[int] = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        widths = (0, 0, 0, 0, *[padding] * 4) if isinstance(padding, int) else tuple(padding)
        if len(widths) != 8:
            raise RefusedError(f"[{self.name}] padding: expected an integer or 8 of them, got {padding}")
        self._padding = widths

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The images with their border."""
        return F.pad(x, mode="reflect", pad_width=self._padding)


class Lambda(Block):
    """A function of arrays as a block.

    Threads: as the function.

    Parameters
    ----------
    function : str or callable
        The name of a function of `mx_ndarray.nd`, or a function of the inputs.

    Raises
    ------
    RefusedError   there is no such name
    ArgumentError  it is neither
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            if not hasattr(nd, function):
                raise RefusedError(f"[Lambda] function: no operator on arrays is named {function!r}")
            function = getattr(nd, function)
        if not callable(function):
            raise ArgumentError(f"[Lambda] function: expected a name or a function, got {function!r}")
        self._func_impl: Callable[..., Any] = function

    def forward(self, *args: Any) -> Any:
        """What the function returns."""
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_impl.__name__})"


class HybridLambda(HybridBlock):
    """A function of arrays or symbols as a hybrid block.

    Threads: as the function.

    Parameters
    ----------
    function : str or callable
        The name of an operator, or a function of (F, inputs…).

    Raises
    ------
    RefusedError   there is no such name
    ArgumentError  it is neither
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            if not hasattr(nd, function) or not hasattr(sym, function):
                raise RefusedError(f"[HybridLambda] function: no operator is named {function!r}")
            self._func_name = function
            self._func: Callable[..., Any] = lambda F, *args: getattr(F, function)(*args)
        elif callable(function):
            self._func, self._func_name = function, getattr(function, "__name__", repr(function))
        else:
            raise ArgumentError(f"[HybridLambda] function: expected a name or a function, got {function!r}")

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:
        """What the function returns."""
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"
