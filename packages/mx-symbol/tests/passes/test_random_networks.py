# SPDX-License-Identifier: Apache-2.0
"""Random image networks: with all passes, without any, and under each pass alone they compute the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_symbol import sym
from mx_symbol.memory.check import check_plan
from testkit.image_networks import assert_same, bound, unit

SHAPE = (2, 8, 9, 9)


@st.composite
def networks(draw):
    """Layers on (2, 8, 9, 9), joined in any way."""
    values = [sym.Variable("data")]
    for i in range(draw(st.integers(2, 7))):
        x, y = (draw(st.sampled_from(values)) for _ in range(2))
        kind = draw(st.integers(0, 8))
        if kind <= 2:
            kernel, groups = draw(st.sampled_from([(1, 1), (3, 1), (3, 2), (3, 8)]))
            made = unit(x, 8, f"u{i}", kernel=kernel, groups=groups)
            made = sym.relu(made) if draw(st.booleans()) else made
        elif kind == 3:
            made = sym.Pooling(
                x, kernel=(3, 3), stride=(1, 1), pad=(1, 1), pool_type=draw(st.sampled_from(["max", "avg"]))
            )
        elif kind == 4:
            made = sym.tanh(x + y)
        elif kind == 5:
            made = sym.clip(sym.elemwise_mul(sym.sigmoid(x), y), -2.0, 2.0)
        elif kind == 6:
            made = unit(sym.Concat(x, y, dim=1), 8, f"j{i}", kernel=1)
        elif kind == 7:
            made = sym.relu(unit(x, 8, f"r{i}") + y)
        else:
            gate = sym.sigmoid(sym.mean(x, axis=(2, 3), keepdims=True))
            made = sym.broadcast_mul(y, gate)
        values.append(made)
    tail = draw(st.integers(1, 3))  # reads every so-manieth position
    return sym.Group([unit(values[-1], 4, "tail", 1, tail), sym.sum(values[len(values) // 2], axis=1)])


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(networks())
def test_all_passes_keep_values_gradients_and_statistics(net):
    assert_same(net, SHAPE, "all")


@settings(max_examples=10, deadline=None)
@given(
    networks(),
    st.sampled_from(
        [
            "strides",
            "channels-last",
            "channels-last-training",
            "batch-norm",
            "layers",
            "fuse",
            "cse,cse-program",
        ]
    ),
)
def test_each_pass_alone_does(net, passes):
    assert_same(net, SHAPE, passes)


@settings(max_examples=10, deadline=None)
@given(networks())
def test_no_two_live_values_overlap(net):
    executor = bound(net, SHAPE, "all")
    for is_train in (True, False):
        schedule = executor._schedule(executor._mode(is_train))
        check_plan(schedule.steps, schedule.sizes, schedule.external, schedule.plan)
