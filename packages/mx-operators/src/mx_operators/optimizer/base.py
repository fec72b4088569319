# SPDX-License-Identifier: Apache-2.0
"""What optimizer updates share: weight and gradient in, new weight out, states written in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mx_core.operator import OperatorProperty
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide


def clipped(x: Any, limit: float) -> Any:
    """x within ±limit; a negative limit means none."""
    return np.clip(x, -limit, limit) if limit >= 0 else x


class Update(OperatorProperty):
    """An update of one weight; `states` are the inputs behind weight and grad, all mutated.

    The result is usually written to the weight itself (`out=weight`).
    """

    floating_only = True
    arguments: ClassVar[tuple[str, ...]] = ("weight", "grad")

    def mutated_inputs(self, p: Any) -> tuple[int, ...]:
        """The states."""
        return tuple(range(2, len(self.inputs(p))))

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """The weight."""
        return ((0, 0),)

    def step(self, p: Any, w: Any, g: Any, *states: Any) -> Sequence[Any]:
        """New weight, then new states."""
        raise NotImplementedError

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """One step."""
        new = self.step(p, *(wide(x) for x in inputs))
        olds = (inputs[0], *inputs[2:])
        return tuple(x.astype(old.dtype) for x, old in zip(new, olds, strict=True))
