# SPDX-License-Identifier: Apache-2.0
"""Embedding: rows of a matrix by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide


@param
class EmbeddingParam:
    """Size of the table."""

    input_dim: int = required("rows of weight", lower=1)
    output_dim: int = required("columns of weight", lower=1)
    dtype: str = opt("float32", "type of weight")
    sparse_grad: bool = opt(False, "accepted for compatibility")


def indices_of(data: Any, extent: int) -> Any:
    """Indices as integers, limited to the table (as MXNet's clip mode)."""
    return np.clip(np.nan_to_num(np.asarray(data, np.float64)), 0, extent - 1).astype(np.int64)


class Embedding(OperatorProperty):
    """weight[data]: data (…) of indices and weight (V, D) give (…, D); indices are clipped to 0…V−1."""

    name = "Embedding"
    Param = EmbeddingParam
    arguments = ("data", "weight")

    def infer_shape(self, p: Any, s: Any) -> None:
        """Weight from the parameters, output from data."""
        s.assign("weight", (p.input_dim, p.output_dim))
        data, output = s.get("data"), s.get("output")
        if data is not None:
            s.assign("output", (*data, p.output_dim))
        elif output is not None:
            s.assign("data", output[:-1])

    def infer_type(self, p: Any, t: Any) -> None:
        """Output as weight; indices of any type."""
        if t.get("weight") is None:
            t.assign("weight", t.get("output") if t.get("output") is not None else p.dtype)
        t.unify(["weight", "output"])
        if t.get("data") is None:
            t.assign("data", "float32")

    def gradient(self, p: Any, g: Any) -> Any:
        """Rows are added up; indices have no gradient."""
        grads = g.op("_backward_Embedding", (g.out_grad(), g.input(0)), params=p)
        return (None, grads[0])

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardEmbedding(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Fancy indexing."""
        return (inputs[1][indices_of(inputs[0], p.input_dim)],)


class BackwardEmbedding(OperatorProperty):
    """Gradient of Embedding with respect to weight."""

    name = "_backward_Embedding"
    Param = EmbeddingParam
    arguments = ("out_grad", "data")
    results = ("weight_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As weight."""
        s.assign("weight_grad", (p.input_dim, p.output_dim))

    def infer_type(self, p: Any, t: Any) -> None:
        """As out_grad."""
        t.unify(["out_grad", "weight_grad"])

    def gradient(self, p: Any, g: Any) -> Any:
        """The rows again."""
        return g.op("Embedding", (g.input(1), g.out_grad()), params=p)[0], None

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Scatter-add of rows, in float32 at least."""
        heads = wide(inputs[0])
        out = np.zeros((p.input_dim, p.output_dim), heads.dtype)
        rows = indices_of(inputs[1], p.input_dim).ravel()
        np.add.at(out, rows, heads.reshape(-1, p.output_dim))
        return (out.astype(inputs[0].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (Embedding,)
