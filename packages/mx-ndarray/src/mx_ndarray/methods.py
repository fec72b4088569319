# SPDX-License-Identifier: Apache-2.0
"""Methods of NDArray that are operators with the array as first input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from mx_core.operator.methods import METHODS
from mx_ndarray.extents import extents
from mx_ndarray.operator_functions import function, keep

if TYPE_CHECKING:
    from mx_ndarray.ndarray import NDArray


class OperatorMethod:
    """Finds the operator when it is first called, so that plug-ins may bring it at any time.

    Threads: any; it never changes.
    """

    def __init__(self, operator: str) -> None:
        self.operator = operator

    def __get__(self, instance: Any, owner: type) -> Any:
        generated: Any = function(self.operator)
        setattr(OperatorMethods, self.operator, generated)
        keep(lambda: setattr(OperatorMethods, self.operator, self))
        return generated.__get__(instance, owner)


class OperatorMethods:
    """Base that carries the generated methods. Threads: any; as for NDArray."""

    __slots__ = ()

    if TYPE_CHECKING:  # the generated methods
        split: Callable[..., NDArray | list[NDArray]]
        topk: Callable[..., NDArray | list[NDArray]]

        def __getattr__(self, name: str) -> Callable[..., NDArray]: ...

    def transpose(self, *axes: Any, **kwargs: Any) -> NDArray:
        """Axes in another order, reversed without arguments; a copy.

        Parameters
        ----------
        axes : ints or one tuple
        """
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            axes = tuple(axes[0] or ())
        given = kwargs.pop("axes", axes)
        return function("transpose")(self, axes=tuple(given or ()), **kwargs)

    def broadcast_to(self, shape: int | Sequence[int], **kwargs: Any) -> NDArray:
        """The array repeated along axes of extent 1, and along new ones in front.

        Parameters
        ----------
        shape : tuple of int
            0 keeps the extent of an axis that the array has.
        """
        array, wanted = cast("NDArray", self), extents(shape)
        missing = len(wanted) - array.ndim
        fitting = array.reshape((*(1,) * missing, *array.shape)) if missing > 0 and array.size else array
        return function("broadcast_to")(fitting, shape=wanted, **kwargs)

    def expand_dims(self, axis: int, inplace: bool = False, **kwargs: Any) -> NDArray:
        """A new axis of extent 1 before `axis`; a view if `inplace`, else a copy."""
        return self._shaped("expand_dims", inplace, {"axis": axis}, kwargs)

    def squeeze(
        self, axis: int | Sequence[int] | None = None, inplace: bool = False, **kwargs: Any
    ) -> NDArray:
        """Without axes of extent 1, all of them or those of `axis`; a view if `inplace`, else a copy."""
        return self._shaped("squeeze", inplace, {"axis": axis}, kwargs)

    def flatten(self, inplace: bool = False, **kwargs: Any) -> NDArray:
        """All axes but the first as one; a view if `inplace`, else a copy."""
        return self._shaped("Flatten", inplace, {}, kwargs)

    def _shaped(
        self, operator: str, inplace: bool, settings: dict[str, Any], others: dict[str, Any]
    ) -> NDArray:
        from mx_ndarray.views import shaped_like

        if inplace:
            return shaped_like(cast("NDArray", self), operator, settings | others)
        return function(operator)(self, **settings, **others)

    def split_v2(
        self, indices_or_sections: int | Sequence[int], axis: int = 0, squeeze_axis: bool = False
    ) -> NDArray | list[NDArray]:
        """Pieces along an axis; see `nd.split_v2`."""
        from mx_ndarray.functions import split_v2

        return split_v2(cast("NDArray", self), indices_or_sections, axis, squeeze_axis)


for _name in METHODS:
    if _name not in vars(OperatorMethods):
        setattr(OperatorMethods, _name, OperatorMethod(_name))
