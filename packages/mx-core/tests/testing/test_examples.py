# SPDX-License-Identifier: Apache-2.0
"""Made-up applications: found, refused by the operator, or raised by a declaration that can never run."""

import re

import numpy as np
import pytest

from mx_core.errors import ArgumentError, MXNetError
from mx_core.operator import Operator, Params, required
from mx_core.testing.examples import search


class RowScale(Operator):
    """data · scale, per row."""

    name = "row_scale"
    arguments = ("data", "scale")
    differentiable = False

    def infer_shape(self, p, s):
        data = s.get("data")
        if data is not None and len(data) != 2:
            raise s.error(f"data: expected two dimensions, got {data}")
        s.assign("output", data)
        if data is not None:
            s.assign("scale", data[:1])

    def reference(self, p, inputs, ctx):
        return [inputs[0] * inputs[1][:, None]]


class Contradicting(RowScale):
    def reference(self, p, inputs, ctx):
        return [inputs[0] * inputs[1]]


class Raising(RowScale):
    def reference(self, p, inputs, ctx):
        raise RuntimeError("no licence")


class RaisingInference(RowScale):
    def infer_shape(self, p, s):
        raise KeyError("no rule")


class SetsNoOutput(RowScale):
    def infer_shape(self, p, s):
        s.unify(["data", "scale"])


class SetsOneAxis(RowScale):
    def infer_shape(self, p, s):
        s.unify(["data", "scale"])
        s.assign("output", (-1, 3))


class Masked(SetsOneAxis):
    dynamic_output = True


class Refusing(RowScale):
    def reference(self, p, inputs, ctx):
        raise ArgumentError("data: expected ascending values")


class NotFinite(RowScale):
    def reference(self, p, inputs, ctx):
        return [np.full_like(inputs[0], np.nan)]


class PathParam(Params):
    path: object = required("what nobody can guess")


class Unguessed(RowScale):
    Param = PathParam


def test_an_operator_that_runs_has_an_example():
    found = search(RowScale())
    assert found.case is not None and found.runs and found.failure is None
    assert [x.shape for x in found.case.inputs] == [(4, 6), (4,)]


@pytest.mark.parametrize(
    ("op", "error"),
    [(Contradicting, ValueError), (Raising, RuntimeError), (RaisingInference, KeyError)],
)
def test_one_that_always_raises_is_a_failure(op, error):
    found = search(op())
    assert found.case is None and type(found.failure) is error


@pytest.mark.parametrize(
    ("op", "left"), [(SetsNoOutput, "unknown"), (SetsOneAxis, r"\(-1, 3\), where -1 is unknown,")]
)
def test_inference_that_never_sets_an_output_is_a_failure(op, left):
    found = search(op())
    assert found.case is None and found.failure is found.unset
    known = r"data \(2, 3, 4, 4, 4\), scale \(2, 3, 4, 4, 4\)"
    expected = (
        rf"\[row_scale\] output: its shape stays {left} for inputs of known shapes: {known}; infer_shape"
    )
    assert re.match(expected, str(found.failure))


def test_outputs_whose_shape_only_a_run_knows_may_stay_unknown():
    found = search(Masked())
    assert found.case is None and found.failure is None
    assert "only a run knows its shape" in str(found.refusal)


@pytest.mark.parametrize("op", [Refusing, NotFinite, Unguessed])
def test_one_that_refuses_or_is_not_guessed_is_none(op):
    found = search(op())
    assert found.case is None and found.failure is None
    assert (found.refusal is not None) or op is Unguessed
    assert found.refusal is None or isinstance(found.refusal, MXNetError)
