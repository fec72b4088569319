# SPDX-License-Identifier: Apache-2.0
"""Types of arrays in declarations, and arrays that are read for their shape only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    #: an array of any element type
    Array: TypeAlias = NDArray[Any]
else:
    Array = Any  # operators are declared, listed and inferred where there is no NumPy, too

#: what a reference returns
Arrays: TypeAlias = Sequence[Array]


class ShapeOnly(Protocol):
    """An array of which `backward` reads shape and element type, never values.

    Its memory is freed before backward.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""

    @property
    def ndim(self) -> int:
        """Number of axes."""

    @property
    def size(self) -> int:
        """Number of elements."""
