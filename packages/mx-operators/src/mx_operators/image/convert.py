# SPDX-License-Identifier: Apache-2.0
"""Images as tensors of a network."""

from __future__ import annotations

import numpy as np

from mx_core.operator import (
    Array,
    Arrays,
    NoParams,
    Operator,
    Params,
    ReferenceContext,
    ShapeOnly,
    Shapes,
    opt,
)
from mx_operators.image.base import image
from mx_operators.nn.base import wide

Floats = tuple[float, ...]


class ToTensor(Operator):
    """data (H, W, C) or (N, H, W, C) of 0 to 255 as float32 (C, H, W) or (N, C, H, W) of 0 to 1."""

    name = "_image_to_tensor"
    aliases = ("_npx__image_to_tensor",)
    fixed_types = {"output": "float32"}
    differentiable = False
    custom_gradient = True

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        data = image(s)
        if data is not None:
            s.assign("output", (*data[:-3], data[-1], *data[-3:-1]))

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        scaled = inputs[0].astype(np.float32) / np.float32(255)
        return (np.ascontiguousarray(np.moveaxis(scaled, -1, -3)),)


class NormalizeParam(Params):
    """Moments."""

    mean: Floats = opt((0.0, 0.0, 0.0, 0.0), "mean of all channels, or of each")
    std: Floats = opt((1.0, 1.0, 1.0, 1.0), "standard deviation of all channels, or of each")


class Normalize(Operator[NormalizeParam]):
    """(data − mean)/std per channel of data (C, H, W) or (N, C, H, W), with 1 or 3 channels."""

    name = "_image_normalize"
    aliases = ("_npx__image_normalize",)

    def infer_shape(self, p: NormalizeParam, s: Shapes) -> None:
        data = s.get("data")
        s.unify(["data", "output"])
        if data is None:
            return
        if len(data) not in (3, 4) or data[-3] not in (1, 3, -1):
            raise s.error(f"data: expected (C, H, W) or (N, C, H, W) with 1 or 3 channels, got {data}")
        for name in ("mean", "std"):
            value = getattr(p, name)
            if name in p.attrs() and len(value) not in (1, data[-3]) and data[-3] >= 0:
                raise s.error(f"{name}: expected 1 or {data[-3]} values for data {data}, got {value}")
        if 0 in p.std:
            raise s.error(f"std: expected no zero, got {p.std}")

    def reference(self, p: NormalizeParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = wide(inputs[0])
        return (((x - _channels(p.mean, x)) / _channels(p.std, x)).astype(inputs[0].dtype),)

    def backward(self, p: NormalizeParam, out_grad: Array, data: ShapeOnly) -> Array:
        return out_grad / _channels(p.std, out_grad)


def _channels(values: Floats, like: Array) -> Array:
    """One value per channel; of more values than channels, the first ones."""
    count = like.shape[-3]
    chosen = values[:count] if len(values) >= count else values[:1] * count
    kind = like.dtype if like.dtype.kind == "f" else np.float32
    return np.array(chosen, kind).reshape(count, 1, 1)
