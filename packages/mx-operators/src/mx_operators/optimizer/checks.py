# SPDX-License-Identifier: Apache-2.0
"""Around updates of many arrays: are they finite, their sums of squares, layer-wise rates, zeroing.

Source: You, Gitman and Ginsburg, Large Batch Training of Convolutional Networks, 2017 (LARS).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mx_core.operator import OperatorProperty, opt, param, required
from mx_core.operator.property import MAX_TENSORS, ReferenceContext


@param
class FiniteParam:
    """What the output held."""

    init_output: bool = opt(True, "begin with 1; False, which goes on from the output's value, is refused")


@param
class MultiFiniteParam:
    """How many arrays, what the output held."""

    num_arrays: int = opt(1, "number of arrays", lower=1, upper=MAX_TENSORS)
    init_output: bool = opt(True, "begin with 1; False, which goes on from the output's value, is refused")


class _Arrays(OperatorProperty):
    def inputs(self, p: Any) -> tuple[str, ...]:
        """array_0, array_1, …"""
        return tuple(f"array_{i}" for i in range(p.num_arrays))


class AllFinite(OperatorProperty):
    """(1,): 1 if every element is finite, else 0."""

    name = "all_finite"
    Param: ClassVar[Any] = FiniteParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """One element."""
        if not p.init_output:
            raise s.error("init_output: expected True, since outputs are not read; multiply the results")
        s.assign("output", (1,))

    def infer_type(self, p: Any, t: Any) -> None:
        """float32, whatever is tested."""
        t.assign("output", "float32")

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Array by array."""
        fine = all(bool(np.isfinite(x.astype(np.float64)).all()) for x in inputs)
        return (np.array([fine], np.float32),)


class MultiAllFinite(_Arrays, AllFinite):
    """(1,): 1 if every element of every array is finite, else 0."""

    name = "multi_all_finite"
    Param = MultiFiniteParam
    variadic = "num_arrays"


@param
class ArraysParam:
    """How many arrays."""

    num_arrays: int = required("number of arrays", lower=1, upper=MAX_TENSORS)


class MultiSumSq(_Arrays):
    """The sum of squares of every array, (num_arrays,)."""

    name = "multi_sum_sq"
    Param = ArraysParam
    variadic = "num_arrays"

    def infer_shape(self, p: Any, s: Any) -> None:
        """One element an array."""
        s.assign("output", (p.num_arrays,))

    def infer_type(self, p: Any, t: Any) -> None:
        """Arrays alike; float32 sums."""
        t.unify(self.inputs(p))
        t.assign("output", "float32")

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Summed in float64."""
        return (np.array([np.square(x.astype(np.float64)).sum() for x in inputs], np.float32),)


class ResetArrays(_Arrays):
    """Every array is set to 0 where it is; there is no output."""

    name = "reset_arrays"
    Param = ArraysParam
    variadic = "num_arrays"
    results = ()

    def mutated_inputs(self, p: Any) -> tuple[int, ...]:
        """All."""
        return tuple(range(p.num_arrays))

    def infer_shape(self, p: Any, s: Any) -> None:
        """Any shapes."""

    def infer_type(self, p: Any, t: Any) -> None:
        """Any types."""

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Zeros."""
        return tuple(np.zeros_like(x) for x in inputs)


@param
class LarsParam:
    """Trust, stability, scaling."""

    eta: float = required("trust coefficient", runtime=True)
    eps: float = required("added to the denominator", runtime=True)
    rescale_grad: float = opt(1.0, "factor of the gradients", runtime=True)


class MultiLars(OperatorProperty):
    """Rates lr·eta·‖w‖/(rescale_grad·‖g‖ + wd·‖w‖ + eps); lr where a norm is 0."""

    name = "multi_lars"
    Param = LarsParam
    arguments: ClassVar[tuple[str, ...]] = ("lrs", "weights_sum_sq", "grads_sum_sq", "wds")

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Elementwise in float64."""
        lrs, weights, grads, wds = (x.astype(np.float64) for x in inputs)
        with np.errstate(all="ignore"):
            w, g = np.sqrt(weights), np.sqrt(grads)
            scaled = lrs * p.eta * w / (p.rescale_grad * g + wds * w + p.eps)
            return (np.where((weights > 0) & (grads > 0), scaled, lrs).astype(inputs[0].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (
    AllFinite, MultiAllFinite, MultiSumSq, ResetArrays, MultiLars,
)  # fmt: skip
