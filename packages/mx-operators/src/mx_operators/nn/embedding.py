# SPDX-License-Identifier: Apache-2.0
"""Embedding: rows of a matrix by index."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, Types, opt, required


class EmbeddingParam(Params):
    """Size of the table."""

    input_dim: int = required("rows of weight", lower=1)
    output_dim: int = required("columns of weight", lower=1)
    dtype: str = opt("float32", "type of weight")
    sparse_grad: bool = opt(False, "accepted for compatibility")


def indices_of(data: Array, extent: int) -> Array:
    """Indices as integers, limited to the table (as MXNet's clip mode)."""
    return np.clip(np.nan_to_num(np.asarray(data, np.float64)), 0, extent - 1).astype(np.int64)


class Embedding(Operator[EmbeddingParam]):
    """weight[data]: data (…) of indices and weight (V, D) give (…, D); indices are clipped to 0…V−1."""

    name = "Embedding"
    arguments = ("data", "weight")
    without_gradient = ("data",)
    linear = True

    def infer_shape(self, p: EmbeddingParam, s: Shapes) -> None:
        """Weight and output from data, if its rank is known; data also backwards."""
        data, output = s.get("data"), s.get("output")
        if data is not None:
            s.assign("weight", (p.input_dim, p.output_dim))
            s.assign("output", (*data, p.output_dim))
        elif output is not None:
            s.assign("data", output[:-1])

    def infer_type(self, p: EmbeddingParam, t: Types) -> None:
        """Output as weight; indices of any type."""
        if t.get("weight") is None:
            t.assign("weight", t.get("output") if t.get("output") is not None else p.dtype)
        t.unify(["weight", "output"])
        if t.get("data") is None:
            t.assign("data", "float32")

    def reference(self, p: EmbeddingParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[1][indices_of(inputs[0], p.input_dim)],)

    def backward(self, p: EmbeddingParam, out_grad: Array, data: Array) -> Array:
        """Rows are added up, in float32 at least."""
        grad = np.zeros((p.input_dim, p.output_dim), out_grad.dtype)
        np.add.at(grad, indices_of(data, p.input_dim).ravel(), out_grad.reshape(-1, p.output_dim))
        return grad
