# SPDX-License-Identifier: Apache-2.0
"""Channels last: only the borders of a region are transposed, and nothing else changes."""

import pytest

from mx_core.graph import PREPARED
from mx_symbol import sym
from mx_symbol.passes.stages import trace
from testkit.image_networks import assert_same, operators_after, residual_network

SHAPE = (2, 3, 32, 32)


def test_a_network_is_transposed_where_it_begins_and_where_it_ends():
    (step,) = [s for s in trace(residual_network(), {"data": SHAPE}) if s.name == "channels-last"]
    assert "transpose" not in [n.op.name for n in step.before.nodes]
    transposed = [n for n in step.after.nodes if n.op.name == "transpose" and PREPARED not in n.attrs]
    assert len(transposed) == 2  # of the data, and in front of Flatten
    convolutions = list(step.after.find("Convolution"))
    assert {n.params.layout for n in convolutions} == {"NHWC"}
    weights = [n for n in step.after.nodes if n.op.name == "transpose" and PREPARED in n.attrs]
    assert len(weights) == len(convolutions)


def test_a_training_step_turns_weights_and_their_gradients_and_little_else():
    (step,) = [
        s for s in trace(residual_network(), {"data": SHAPE}, True) if s.name == "channels-last-training"
    ]
    assert "transpose" not in [n.op.name for n in step.before.nodes]
    layers = list(step.after.find("Convolution", "_backward_Convolution", "Pooling", "_backward_Pooling"))
    assert {n.params.layout for n in layers} == {"NHWC"}
    transposed = [n for n in step.after.nodes if n.op.name == "transpose"]
    weights = len(list(step.after.find("Convolution")))
    # the data, what goes into Flatten, and what comes back from it
    assert len(transposed) == 2 * weights + 3
    assert not any(PREPARED in n.attrs for n in transposed)


@pytest.mark.parametrize("passes", ["channels-last", "channels-last-training"])
@pytest.mark.parametrize("groups", [1, 4, 16])
def test_training_and_inference_give_the_same(groups, passes):
    assert_same(residual_network(groups), SHAPE, passes)


def test_all_passes_together_give_the_same():
    assert_same(residual_network(), SHAPE, "all")


def test_what_is_no_image_is_left_alone():
    x = sym.Convolution(sym.Variable("data"), kernel=(3,), num_filter=4)
    assert "transpose" not in operators_after(x, "channels-last", {"data": (2, 3, 9)})
    y = sym.BatchNorm(sym.relu(sym.Variable("data")))
    assert "transpose" not in operators_after(y, "channels-last", {"data": SHAPE})


def test_poolings_without_a_kernel_stay_outside():
    x = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4)
    x = sym.relu(sym.Pooling(x, kernel=(2, 2), pool_type="lp", p_value=2))
    assert operators_after(x, "channels-last", {"data": SHAPE})[-1] == "relu"
    assert_same(x, SHAPE, "channels-last")


def test_an_array_of_other_rank_stays_behind_the_region():
    """Its axes broadcast from the right: beside images it is one per channel only with channels first."""
    x = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=3)
    x = sym.relu(sym.broadcast_add(x, sym.Variable("shift", shape=(3, 1, 1))))
    assert operators_after(x, "channels-last", {"data": SHAPE})[-2:] == ["broadcast_add", "relu"]
    assert_same(x, SHAPE, "channels-last")
