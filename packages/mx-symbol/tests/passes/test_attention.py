# SPDX-License-Identifier: Apache-2.0
"""Attention as one operator: where it is found, with and without heads, and that results stay."""

import numpy as np
import pytest

from mx_symbol import sym
from testkit.attention_graphs import HEADS, attention, cut, joined, variables

BATCH, LENGTH, MEMORY, DEPTH = 2, 7, 5, 4


def run(net, passes=None):
    """Operators that run, and what they give."""
    shapes = {"q": (BATCH, LENGTH, HEADS * DEPTH), "k": (BATCH, MEMORY, HEADS * DEPTH)}
    shapes["v"] = (BATCH, MEMORY, HEADS * 6)
    executor = net.simple_bind(grad_req="null", passes=passes, **shapes)
    rng = np.random.default_rng(0)
    for array in executor.arg_dict.values():
        array[:] = rng.standard_normal(array.shape)
    outputs = [y.asnumpy() for y in executor.forward()]
    return [node.op.name for node in executor.nodes(False)], outputs


def same(net, passes=None, tolerance=1e-5):
    """Operators that run; results are those without any pass."""
    names, got = run(net, passes)
    for y, expected in zip(got, run(net, "none")[1], strict=True):
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)
    return names


def test_heads_stay_where_they_are():
    assert same(joined(attention(*map(cut, variables())))) == ["_fused_attention"]


@pytest.mark.parametrize(
    ("scale", "softmax"),
    [
        (lambda x: x, {}), (lambda x: x / 3, {}), (lambda x: x * -0.5, {"axis": 2}),
        (lambda x: 0.5 * x, {"temperature": 2.0}),
    ],
)  # fmt: skip
def test_scales_and_temperatures(scale, softmax):
    assert same(attention(*variables(), scale=scale, **softmax)) == ["_fused_attention"]


def test_heads_that_are_not_joined_behind():
    names = same(attention(*map(cut, variables())))
    assert "_fused_attention" in names and "softmax" not in names and names.count("transpose") == 3


def test_another_way_to_join_is_not_taken_for_the_usual_one():
    mixed = attention(*map(cut, variables()))
    turned = sym.transpose(sym.reshape(mixed, shape=(-4, -1, HEADS, 0, 0)), axes=(0, 3, 1, 2))
    assert "transpose" in same(sym.reshape(turned, shape=(0, 0, -3)))


def test_heads_of_other_extents_are_not_taken_for_the_usual_ones():
    """Rows that are cut, or joined, at other places than those of the matrices are another computation."""
    rows, depth = {"q": LENGTH, "k": MEMORY, "v": MEMORY}, {"q": DEPTH, "k": DEPTH, "v": 6}

    def odd(name):
        parts = sym.reshape(sym.Variable(name), shape=(BATCH, 2 * rows[name], HEADS, depth[name] // 2))
        heads = sym.transpose(parts, axes=(0, 2, 1, 3))
        return sym.reshape(heads, shape=(BATCH * HEADS, rows[name], depth[name]))

    names = same(joined(attention(*map(odd, "qkv"))))
    assert "_fused_attention" in names and names.count("transpose") == 4
    parts = sym.reshape(attention(*map(cut, variables())), shape=(BATCH, HEADS, 2 * LENGTH, 3))
    whole = sym.reshape(sym.transpose(parts, axes=(0, 2, 1, 3)), shape=(BATCH, LENGTH, HEADS * 6))
    assert same(whole).count("transpose") == 4


def test_scores_that_others_read_are_kept():
    q, k, v = variables()
    chances = sym.softmax(sym.batch_dot(q, k, transpose_b=True))
    assert "_fused_attention" not in same(sym.Group([sym.batch_dot(chances, v), chances]))


def test_other_axes_are_left_alone():
    assert "_fused_attention" not in same(attention(*variables(), axis=1))


def test_training_is_untouched():
    net = attention(*variables())
    shapes = {n: (BATCH, LENGTH, DEPTH) for n in "qkv"}
    assert "_fused_attention" not in [n.op.name for n in net.simple_bind(**shapes).nodes(True)]


def test_in_bfloat16_scores_stay_float32():
    layers = [sym.FullyConnected(x, num_hidden=HEADS * DEPTH, flatten=False) for x in variables()]
    net = joined(attention(*map(cut, layers)))
    names, (got,) = run(net, "+bfloat16")
    if "Cast" not in names:
        pytest.skip("no bfloat16 on this CPU")
    assert "batch_dot" not in names and names[names.index("_fused_attention") + 1 :] == ["Cast"]
    (expected,) = run(net, "none")[1]
    assert np.linalg.norm(got - expected) < 0.02 * np.linalg.norm(expected)
