# SPDX-License-Identifier: Apache-2.0
"""Helpers for updates of many arrays: tests for finite values, sums of squares, layer-wise rates, zeroing.

Source: You, Gitman and Ginsburg, Large Batch Training of Convolutional Networks, 2017 (LARS).
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from mx_core.operator import Arrays, Operator, Params, ReferenceContext, Shapes, Types, opt, required
from mx_core.operator.declaration import MAX_TENSORS


class FiniteParam(Params):
    """What the output held."""

    init_output: bool = opt(True, "begin with 1; False, which goes on from the output's value, is refused")


class MultiFiniteParam(FiniteParam, leading=True):
    """How many arrays, what the output held."""

    num_arrays: int = opt(1, "number of arrays", lower=1, upper=MAX_TENSORS)


class ArraysParam(Params):
    """How many arrays."""

    num_arrays: int = required("number of arrays", lower=1, upper=MAX_TENSORS)


F = TypeVar("F", bound=FiniteParam)


def array_names(n: int) -> tuple[str, ...]:
    """array_0, array_1, …"""
    return tuple(f"array_{i}" for i in range(n))


class _Finite(Operator[F]):
    differentiable = False

    def infer_shape(self, p: F, s: Shapes) -> None:
        if not p.init_output:
            raise s.error("init_output: expected True, since outputs are not read; multiply the results")
        s.assign("output", (1,))

    def infer_type(self, p: F, t: Types) -> None:
        t.assign("output", "float32")

    def reference(self, p: F, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        fine = all(bool(np.isfinite(x.astype(np.float64)).all()) for x in inputs)
        return (np.array([fine], np.float32),)


class AllFinite(_Finite[FiniteParam]):
    """(1,): 1 if every element is finite, else 0."""

    name = "all_finite"


class MultiAllFinite(_Finite[MultiFiniteParam]):
    """(1,): 1 if every element of every array is finite, else 0."""

    name = "multi_all_finite"
    variadic = "num_arrays"

    def inputs(self, p: MultiFiniteParam) -> tuple[str, ...]:
        return array_names(p.num_arrays)


class MultiSumSq(Operator[ArraysParam]):
    """The sum of squares of every array, (num_arrays,)."""

    name = "multi_sum_sq"
    variadic = "num_arrays"
    differentiable = False
    custom_gradient = True
    fixed_types = {"output": "float32"}

    def inputs(self, p: ArraysParam) -> tuple[str, ...]:
        return array_names(p.num_arrays)

    def infer_shape(self, p: ArraysParam, s: Shapes) -> None:
        s.assign("output", (p.num_arrays,))

    def reference(self, p: ArraysParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (np.array([np.square(x.astype(np.float64)).sum() for x in inputs], np.float32),)


class ResetArrays(Operator[ArraysParam]):
    """Every array is set to 0 where it is; there is no output."""

    name = "reset_arrays"
    variadic = "num_arrays"
    results = ()
    differentiable = False

    def inputs(self, p: ArraysParam) -> tuple[str, ...]:
        return array_names(p.num_arrays)

    def mutated_inputs(self, p: ArraysParam) -> tuple[int, ...]:
        return tuple(range(p.num_arrays))

    def infer_shape(self, p: ArraysParam, s: Shapes) -> None:
        """Any shapes."""

    def infer_type(self, p: ArraysParam, t: Types) -> None:
        """Any types."""

    def reference(self, p: ArraysParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return tuple(np.zeros_like(x) for x in inputs)


class LarsParam(Params):
    """Trust, stability, scaling."""

    eta: float = required("trust coefficient", runtime=True)
    eps: float = required("added to the denominator", runtime=True)
    rescale_grad: float = opt(1.0, "factor of the gradients", runtime=True)


class MultiLars(Operator[LarsParam]):
    """Rates lr·eta·‖w‖/(rescale_grad·‖g‖ + wd·‖w‖ + eps); lr where a norm is 0."""

    name = "multi_lars"
    differentiable = False
    custom_gradient = True
    arguments = ("lrs", "weights_sum_sq", "grads_sum_sq", "wds")

    def reference(self, p: LarsParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        lrs, weights, grads, wds = (x.astype(np.float64) for x in inputs)
        with np.errstate(all="ignore"):
            w, g = np.sqrt(weights), np.sqrt(grads)
            scaled = lrs * p.eta * w / (p.rescale_grad * g + wds * w + p.eps)
            return (np.where((weights > 0) & (grads > 0), scaled, lrs).astype(inputs[0].dtype),)
