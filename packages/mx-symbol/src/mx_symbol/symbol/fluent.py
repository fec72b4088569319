# SPDX-License-Identifier: Apache-2.0
"""Methods of Symbol that are operators: `x.reshape((2, 3))` is `sym.reshape(x, (2, 3))`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from mx_core.operator.methods import METHODS

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol


class Fluent:
    """The methods; each calls the function of the same name with the symbol as first input.

    Threads: any; a symbol is only read.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Symbol]: ...

    def reshape(self, *shape: Any, **kwargs: Any) -> Symbol:
        """The same elements in another shape: `x.reshape((2, 3))` or `x.reshape(2, 3)`."""
        from mx_symbol.symbol.functions import call

        if shape:
            kwargs["shape"] = shape if isinstance(shape[0], int) else tuple(shape[0])
        return call("reshape", self, **kwargs)

    def split_v2(
        self, indices_or_sections: int | Sequence[int], axis: int = 0, squeeze_axis: bool = False
    ) -> Symbol:
        """Partitions along an axis; see `sym.split_v2`."""
        from mx_symbol.symbol.creation import split_v2

        return split_v2(cast("Symbol", self), indices_or_sections, axis, squeeze_axis)

    def squeeze(
        self, axis: int | Sequence[int] | None = None, inplace: bool = False, **kwargs: Any
    ) -> Symbol:
        """Without axes of extent 1, all of them or those of `axis`; `inplace` is for arrays: graphs plan memory."""
        return _shaped(self, "squeeze", {"axis": axis} | kwargs)

    def expand_dims(self, axis: int, inplace: bool = False, **kwargs: Any) -> Symbol:
        """A new axis of extent 1 before `axis`; `inplace` as of `squeeze`."""
        return _shaped(self, "expand_dims", {"axis": axis} | kwargs)

    def flatten(self, inplace: bool = False, **kwargs: Any) -> Symbol:
        """All axes but the first as one; `inplace` as of `squeeze`."""
        return _shaped(self, "flatten", kwargs)

    def astype(self, dtype: Any, **kwargs: Any) -> Symbol:
        """The same values as another element type."""
        from mx_symbol.symbol.functions import call

        return call("cast", self, dtype=dtype, **kwargs)


def _shaped(symbol: Fluent, operator: str, settings: dict[str, Any]) -> Symbol:
    from mx_symbol.symbol.functions import call

    return call(operator, symbol, **settings)


def _method(name: str) -> Callable[..., Symbol]:
    def method(self: Fluent, *args: Any, **kwargs: Any) -> Symbol:
        from mx_symbol.symbol.functions import call

        return call(name, self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The operator `{name}` with this symbol as its first input."
    return method


for _name in METHODS:
    if _name not in vars(Fluent):
        setattr(Fluent, _name, _method(_name))
