# SPDX-License-Identifier: Apache-2.0
"""Constant: a parameter that training does not change."""

from __future__ import annotations

import warnings
from typing import Any

from mx_gluon.parameter.parameter import Parameter
from mx_ndarray import NDArray, nd
from mx_train import initializer


class _Fixed(initializer.Initializer):
    """Fills an array with given values."""

    def __init__(self, value: NDArray) -> None:
        super().__init__()
        self._value = value

    def _init_weight(self, name: str, arr: NDArray) -> None:
        self._value.copyto(arr)


class Constant(Parameter):
    """A parameter with a fixed value and no gradient.

    Threads: as `Parameter`.

    Parameters
    ----------
    name : str
    value : NDArray, NumPy array or nested lists

    Examples
    --------
    >>> block.params.get_constant("scale", [1.0, 2.0])
    """

    def __init__(self, name: str, value: Any) -> None:
        self.value = value if isinstance(value, NDArray) else nd.array(value)
        super().__init__(
            name, grad_req="null", shape=self.value.shape, dtype=self.value.dtype, init=_Fixed(self.value)
        )

    def __repr__(self) -> str:
        return f"Constant {self.name} (shape={self.shape}, dtype={self.dtype})"

    @property
    def grad_req(self) -> str:
        """Always "null"; setting another one warns and does nothing."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req != "null":
            warnings.warn(f"[Constant {self.name}] grad_req: stays 'null', got {req!r}", stacklevel=2)
