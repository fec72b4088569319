# SPDX-License-Identifier: Apache-2.0
"""Steps of pointwise convolutions move to the layer that makes what they read, and results stay."""

import numpy as np
import pytest

from mx_symbol import sym
from mx_symbol.passes.stages import trace
from testkit.image_networks import assert_same, unit

SHAPE = (2, 4, 11, 8)


def next_stage(x):
    """Two branches that read every second position."""
    return unit(x, 6, "left", kernel=1, stride=2) + unit(x, 6, "right", kernel=1, stride=2)


def bottleneck():
    """The end of a stage and the beginning of the next."""
    data = sym.relu(unit(sym.Variable("data"), 4, "first"), name="begin")
    x = sym.relu(unit(sym.relu(unit(data, 5, "all")), 5, "in"))
    return next_stage(sym.relu(unit(x, 4, "out", kernel=1) + data))


def strides(net, shapes=SHAPE, **options):
    """Steps of the convolutions and poolings by name, before and after."""
    (step,) = [s for s in trace(net, {"data": shapes}, **options) if s.name == "strides"]
    return tuple(
        {n.name: n.params.stride for n in graph.find("Convolution", "Pooling")}
        for graph in (step.before, step.after)
    )


def test_the_convolution_before_takes_the_step_and_the_residual_is_thinned():
    before, after = strides(bottleneck())
    plain = {"first_conv": (1, 1), "all_conv": (1, 1)}
    ends = {"left_conv": (2, 2), "right_conv": (2, 2)}
    assert before == {**plain, "in_conv": (1, 1), "out_conv": (1, 1), **ends}
    assert after.pop("begin_output_thinned") == (2, 2)
    # through the pointwise one, whose step is absorbed in turn; wider windows read everything
    assert after == {**plain, "in_conv": (2, 2), "out_conv": (), "left_conv": (), "right_conv": ()}


def test_what_is_thinned_keeps_its_channels_last():
    nodes = bottleneck().simple_bind(data=SHAPE, grad_req="null").nodes()
    (thinned,) = [node for node in nodes if node.op is not None and node.op.name == "Pooling"]
    assert thinned.params.layout == "NHWC"


def test_steps_multiply():
    x = sym.relu(unit(sym.Variable("data"), 5, "in", kernel=3, stride=2))
    _, after = strides(unit(x, 3, "last", kernel=1, stride=2))
    assert after == {"in_conv": (4, 4), "last_conv": ()}


@pytest.mark.parametrize("shape", [SHAPE, (1, 4, 1, 1), (1, 4, 6, 7)])
def test_results_stay(shape):
    assert_same(bottleneck(), shape, "strides")
    assert_same(bottleneck(), shape, "all")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_residuals_that_are_no_numbers_are_thinned_as_they_are(value, dtype):
    x, residual = sym.Variable("data", dtype=dtype), sym.Variable("residual", dtype=dtype)
    layer = sym.Convolution(x, kernel=(1, 1), num_filter=4, no_bias=True, name="in")
    net = sym.Convolution(
        layer + residual, kernel=(1, 1), stride=(2, 2), num_filter=4, no_bias=True, name="out"
    )
    shapes = {"data": (2, 4, 6, 6), "residual": (2, 4, 6, 6)}
    given = np.ones(shapes["residual"])
    given[:, 1, ::2, ::4] = value
    found = []
    for passes in ("all", "none"):
        executor = net.simple_bind(grad_req="null", passes=passes, **shapes)
        for name, array in executor.arg_dict.items():
            array[:] = given if name == "residual" else 0.5
        found.append(executor.forward()[0].astype("float64").asnumpy())
    np.testing.assert_array_equal(*found)
    assert not np.isfinite(found[0][:, :, :, 0::2]).any() and np.isfinite(found[0][:, :, :, 1]).all()


def _read_elsewhere():
    x = sym.relu(unit(sym.Variable("data"), 4, "in"))
    return sym.Group([next_stage(x), sym.sum(x)])


def _other_steps():
    x = sym.relu(unit(sym.Variable("data"), 4, "in"))
    return sym.Group([unit(x, 3, "a", kernel=1, stride=2), unit(x, 3, "b", kernel=1, stride=3)])


def _wider_window():
    x = sym.relu(unit(sym.Variable("data"), 4, "in"))
    return unit(x, 3, "a", kernel=3, stride=2)


def _an_output():
    x = sym.relu(unit(sym.Variable("data"), 4, "in"))
    return sym.Group([x, next_stage(x)])


def _nothing_to_save():
    return next_stage(sym.relu(sym.Variable("data")))


@pytest.mark.parametrize("net", [_read_elsewhere, _other_steps, _wider_window, _an_output, _nothing_to_save])
def test_what_others_read_is_computed(net):
    before, after = strides(net())
    assert before == after


def test_training_and_graphs_without_the_pass_are_left_alone():
    assert not [s for s in trace(bottleneck(), {"data": SHAPE}, True) if s.name == "strides"]
    assert not [s for s in trace(bottleneck(), {"data": SHAPE}, passes="-strides") if s.name == "strides"]
