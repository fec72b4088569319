# SPDX-License-Identifier: Apache-2.0
"""The first form of declarations, while operators are moved to `Operator`."""

from __future__ import annotations

from typing import Any

from mx_core.operator.declaration import MAX_TENSORS as MAX_TENSORS
from mx_core.operator.declaration import Operator
from mx_core.operator.declaration import ReferenceContext as ReferenceContext
from mx_core.operator.gradient import GradientBuilder, Gradients
from mx_core.operator.params import Params


class OperatorProperty(Operator[Any]):
    """An operator whose backward operators are written by hand and named in `companions`."""

    shape_only_indices: frozenset[int] = frozenset()

    def __init_subclass__(cls, **keywords: Any) -> None:
        given = cls.__dict__.get("shape_only_inputs")
        if isinstance(given, frozenset):
            cls.shape_only_indices = given
            del cls.shape_only_inputs
        super().__init_subclass__(**keywords)

    @classmethod
    def _check_gradient(cls) -> None:
        return

    def shape_only_inputs(self, p: Params) -> frozenset[int]:
        """Indices of inputs of which only shape and type are read."""
        return self.shape_only_indices & {*range(len(self.inputs(p)) + len(self.aux(p)))}

    def companions(self) -> tuple[Operator[Any], ...]:
        """Operators that come with this one (its backward operator)."""
        return ()

    def gradient(self, p: Params, g: GradientBuilder) -> Gradients:
        """Zero; of a backward operator an error where it is needed."""
        return g.not_differentiable() if self.backward_of is not None else None
