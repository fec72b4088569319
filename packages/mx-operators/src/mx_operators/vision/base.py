# SPDX-License-Identifier: Apache-2.0
"""What operators on images share: (N, C, H, W), and resampling along rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide


def image_shape(s: Any, name: str = "data") -> tuple[int, ...] | None:
    """The shape of a batch of images, checked to be (N, C, H, W)."""
    shape = s.get(name)
    if shape is not None and len(shape) != 4:
        raise s.error(f"{name}: expected 4 dimensions (N, C, H, W), got {shape}")
    return None if shape is None else tuple(shape)


class Resample(OperatorProperty):
    """output = R·data·Cᵀ for every image: R (H′, H) mixes rows, C (W′, W) columns."""

    def weights(self, p: Any, extent: int, new: int) -> Any:
        """The mixing matrix (new, extent) of one axis, in float64."""
        raise NotImplementedError

    def extents(self, p: Any, shapes: Sequence[Sequence[int]]) -> tuple[int, int]:
        """H′ and W′ for the shapes of the inputs."""
        raise NotImplementedError

    def infer_shape(self, p: Any, s: Any) -> None:
        """Batch and channels as data; extents by the rule of the operator."""
        shapes = [image_shape(s, name) for name in self.inputs(p)]
        data = shapes[0]
        if data is not None and all(x is not None and -1 not in x[2:] for x in shapes):
            if 0 in data[2:]:
                raise s.error(f"data: images of {data} are empty")
            new = self.extents(p, [x for x in shapes if x is not None])
            if min(new) <= 0:
                raise s.error(f"no positive output extent for data {data}: {new}")
            s.assign("output", (*data[:2], *new))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Two matrix products."""
        x = wide(inputs[0])
        new = self.extents(p, [a.shape for a in inputs])
        rows, columns = (self.weights(p, old, e) for old, e in zip(x.shape[2:], new, strict=True))
        return ((rows @ x @ columns.T).astype(inputs[0].dtype),)


class BackwardResample(OperatorProperty):
    """Gradient of a Resample: Rᵀ·out_grad·C."""

    forward: Resample
    arguments = ("out_grad", "data")
    results = ("data_grad",)
    shape_only_inputs = frozenset((1,))

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data."""
        s.unify(["data", "data_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Two matrix products."""
        g, shape = wide(inputs[0]), inputs[1].shape
        rows, columns = (
            self.forward.weights(p, old, new) for old, new in zip(shape[2:], g.shape[2:], strict=True)
        )
        return ((rows.T @ g @ columns).astype(inputs[0].dtype),)


def mixing(shape: tuple[int, int], terms: Sequence[tuple[Any, Any]]) -> Any:
    """A matrix with the given (column indices, weights), one per row, added up."""
    matrix = np.zeros(shape)
    for column, weight in terms:
        np.add.at(matrix, (np.arange(shape[0]), column), weight)
    return matrix
