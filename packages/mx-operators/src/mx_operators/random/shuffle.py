# SPDX-License-Identifier: Apache-2.0
"""Random order and random choice: shuffle, multinomial samples."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from mx_core import dtypes, philox
from mx_core.operator import (
    Array,
    Arrays,
    GradientBuilder,
    Gradients,
    NoParams,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    Shapes,
    Types,
    opt,
)
from mx_operators.random.draw import check


class Shuffle(Operator):
    """Rows (slices along axis 0) in random order."""

    name = "_shuffle"
    aliases = ("shuffle",)
    is_random = True
    differentiable = False

    def random_blocks(self, p: NoParams, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """A 64-bit key per row."""
        return (output_shapes[0][0] + 1) // 2 if output_shapes[0] else 0

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = inputs[0]
        if x.ndim == 0:
            return (x.copy(),)
        keys = philox.uniform(ctx.random_key, ctx.random_offset, x.shape[0], np.float64)
        return (x[np.argsort(keys, kind="stable")],)


class MultinomialParam(Params):
    """How many, as what."""

    shape: Shape = opt((), "samples per distribution; () is one")
    get_prob: bool = opt(False, "return log-probabilities of the samples too")
    dtype: str = opt("int32", "type of the samples")


class SampleMultinomial(Operator[MultinomialParam]):
    """Indices drawn by probability: data (K,) or (N, K) of probabilities along the last axis.

    Each is taken over the sum of its row.  Where a probability is negative or not finite, or a row has no sum, the
    execution fails. The gradient of a log-probability goes to the probability that was drawn, over its value.
    """

    name = "_sample_multinomial"
    aliases = ("sample_multinomial",)
    is_random = True

    def outputs(self, p: MultinomialParam) -> tuple[str, ...]:
        """Samples, and log-probabilities with get_prob."""
        return ("output0", "output1") if p.get_prob else ("output",)

    def infer_shape(self, p: MultinomialParam, s: Shapes) -> None:
        data = s.get("data")
        if data is not None:
            if not data or data[-1] == 0:
                raise s.error(f"data: expected (K,) or (N, K) with K above 0, got {data}")
            shape = (*data[:-1], *p.shape) or (1,)
            for name in self.outputs(p):
                s.assign(name, shape)

    def infer_type(self, p: MultinomialParam, t: Types) -> None:
        samples, *log_probabilities = self.outputs(p)
        t.assign(samples, p.dtype)
        for name in log_probabilities:
            t.assign(name, t.get("data"))

    def gradient(self, p: MultinomialParam, g: GradientBuilder) -> Gradients:
        """Of the log-probabilities; samples have none."""
        if not p.get_prob or 0 in p.shape:
            return (None,)
        rows = g.op("Reshape", (g.input("data"),), shape=(-1, 0), reverse=True)[0]  # (N, K)
        drawn = g.op("Cast", (g.output("output0"),), dtype="float64")
        drawn = g.op("Reshape", drawn, shape=(-1, prod(p.shape)))  # (N, samples of each)
        number = g.op("expand_dims", g.op("_contrib_arange_like", drawn, axis=0), axis=1)
        number = g.op("broadcast_like", (*number, *drawn))
        flat = [g.op("Reshape", (each,), shape=(-1,))[0] for each in (*number, *drawn)]
        inverse = g.op("exp", g.op("negative", (g.output("output1"),)))
        heads = g.op("Reshape", g.op("elemwise_mul", (g.out_grad("output1"), *inverse)), shape=(-1,))
        where = g.op("stack", flat, num_args=2)
        found = g.op("_backward_gather_nd", (*heads, rows, *where))
        return g.op("reshape_like", (*found, g.input("data")))

    def random_blocks(self, p: MultinomialParam, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """One 64-bit number a sample."""
        return (prod(output_shapes[0]) + 1) // 2

    def reference(self, p: MultinomialParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        rows = inputs[0].reshape(-1, inputs[0].shape[-1]).astype(np.float64)
        self._check(rows)
        each = max(prod(p.shape), 1) if p.shape else 1
        u = philox.uniform(ctx.random_key, ctx.random_offset, len(rows) * each, np.float64)
        u = u.reshape(len(rows), each)
        total = np.cumsum(rows, 1)
        found = [np.searchsorted(c, v * c[-1], "right") for c, v in zip(total, u, strict=True)]
        index = np.reshape(found, (len(rows), each)).astype(np.intp)
        index = np.minimum(index, rows.shape[1] - 1)
        shape = (*inputs[0].shape[:-1], *p.shape) or (1,)
        samples = index.reshape(shape).astype(dtypes.numpy_dtype(dtypes.code(p.dtype)))
        if not p.get_prob:
            return (samples,)
        with np.errstate(divide="ignore"):
            prob = np.log(np.take_along_axis(rows, index, 1)).reshape(shape)
        return samples, prob.astype(inputs[0].dtype)

    def _check(self, rows: Array) -> None:
        for row, weights in enumerate(rows):
            wrong = weights[~((weights >= 0) & np.isfinite(weights))]
            got = f"got {wrong[0]:g} in row {row}" if wrong.size else ""
            check(self.name, not wrong.size, f"data: expected finite probabilities ≥ 0, {got}")
            total = float(weights.sum())
            fine = 0 < total < np.inf
            check(self.name, fine, f"data: expected a finite sum > 0 of probabilities in row {row}")
