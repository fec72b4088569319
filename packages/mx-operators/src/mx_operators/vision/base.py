# SPDX-License-Identifier: Apache-2.0
"""Shared code of operators on images (N, C, H, W): resampling along rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, ShapeOnly, Shapes
from mx_operators.nn.base import wide


def image_shape(s: Shapes, name: str = "data") -> tuple[int, ...] | None:
    """The shape of a batch of images, checked to be (N, C, H, W)."""
    shape = s.get(name)
    if shape is not None and len(shape) != 4:
        raise s.error(f"{name}: expected 4 dimensions (N, C, H, W), got {shape}")
    return shape


P = TypeVar("P", bound=Params)


class Resample(Operator[P]):
    """output = R·data·Cᵀ for every image: R (H′, H) mixes rows, C (W′, W) columns."""

    def weights(self, p: P, extent: int, new: int) -> Array:
        """The mixing matrix (new, extent) of one axis, in float64."""
        raise NotImplementedError

    def extents(self, p: P, shapes: Sequence[Sequence[int]]) -> tuple[int, int]:
        """H′ and W′ for the shapes of the inputs."""
        raise NotImplementedError

    def infer_shape(self, p: P, s: Shapes) -> None:
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

    def reference(self, p: P, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = wide(inputs[0])
        new = self.extents(p, [a.shape for a in inputs])
        rows, columns = (self.weights(p, old, e) for old, e in zip(x.shape[2:], new, strict=True))
        return ((rows @ x @ columns.T).astype(inputs[0].dtype),)

    def backward(self, p: P, out_grad: Array, data: ShapeOnly) -> Array:
        """Rᵀ·out_grad·C."""
        rows, columns = (
            self.weights(p, old, new) for old, new in zip(data.shape[2:], out_grad.shape[2:], strict=True)
        )
        return rows.T @ out_grad @ columns


def mixing(shape: tuple[int, int], terms: Sequence[tuple[Array, Array]]) -> Array:
    """A matrix with the given (column indices, weights), one per row, added up."""
    matrix = np.zeros(shape)
    for column, weight in terms:
        np.add.at(matrix, (np.arange(shape[0]), column), weight)
    return matrix
