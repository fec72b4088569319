# SPDX-License-Identifier: Apache-2.0
"""Blocks side by side."""

from __future__ import annotations

from typing import Any

from mx_gluon.block import HybridBlock
from mx_gluon.nn.chains import HybridSequential, Sequential
from mx_gluon.parameter import ParameterDict
from mx_ndarray import nd


class Concurrent(Sequential):
    """Calls all its blocks with the same input, and concatenates what they return.

    Threads: as `Block`.

    Parameters
    ----------
    axis : int
        Along which results are concatenated.
    prefix, params : as in `Block`
    """

    def __init__(
        self, axis: int = -1, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Any) -> Any:
        """The results side by side."""
        return nd.concat(*(block(x) for block in self._children.values()), dim=self.axis)


class HybridConcurrent(HybridSequential):
    """As `Concurrent`, of hybrid blocks; all together make one graph.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    axis : int
        Along which results are concatenated.
    prefix, params : as in `Block`
    """

    def __init__(
        self, axis: int = -1, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The results side by side."""
        return F.concat(*(block(x) for block in self._children.values()), dim=self.axis)


class Identity(HybridBlock):
    """Returns its input: a shortcut beside the blocks of a `HybridConcurrent`.

    Threads: as `HybridBlock`.
    """

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The input."""
        return x
