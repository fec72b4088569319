# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells of contrib: dropout with one mask, layouts, projections, loops, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_gluon import rnn
from mx_gluon.contrib import rnn as crnn
from mx_gluon.contrib.rnn.rnn_cell import dynamic_unroll
from mx_gluon.errors import RefusedError
from mx_ndarray import autograd, nd
from mx_symbol import sym

pytestmark = pytest.mark.timeout(60)


def sequence(*shape: int) -> Any:
    return nd.array(np.random.default_rng(5).uniform(-1, 1, shape))


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-4, atol=1e-5)


class Seen(rnn.HybridRecurrentCell):
    """Puts out its input and keeps its state, so that masks can be seen."""

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return [{"shape": (batch_size, 40), "__layout__": "NC"}]

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return x, [args[0][0]]


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_variational_dropout_has_one_mask_for_all_steps(layout: str) -> None:
    axis = layout.index("T")
    for shares in ({"drop_inputs": 0.5}, {"drop_outputs": 0.5}, {"drop_inputs": 0.5, "drop_states": 0.1}):
        cell = crnn.VariationalDropoutCell(Seen(), **shares)
        with autograd.record():
            outputs, _ = cell.unroll(4, nd.ones((4, 4, 40)), layout=layout, merge_outputs=True)
            again, _ = cell.unroll(4, nd.ones((4, 4, 40)), layout=layout, merge_outputs=True)
        found = np.moveaxis(outputs.asnumpy(), axis, 0)
        assert set(np.unique(found)) == {0, 2}
        np.testing.assert_array_equal(found, found[:1].repeat(4, 0))
        assert (outputs.asnumpy() != again.asnumpy()).any()
        assert (found[0, 0] != found[0, 1]).any(), "each sequence has a mask of its own"


def test_variational_dropout_of_states_is_of_the_first_one_and_lasts_until_reset() -> None:
    cell = crnn.VariationalDropoutCell(Seen(), drop_states=0.5)
    with autograd.record():
        _, (first,) = cell(nd.ones((2, 40)), [nd.ones((2, 40))])
        _, (second,) = cell(nd.ones((2, 40)), [nd.ones((2, 40))])
        cell.reset()
        _, (third,) = cell(nd.ones((2, 40)), [nd.ones((2, 40))])
    np.testing.assert_array_equal(first.asnumpy(), second.asnumpy())
    assert (first.asnumpy() != third.asnumpy()).any()


@pytest.mark.parametrize("kind", [crnn.Conv2DRNNCell, crnn.Conv2DLSTMCell, crnn.Conv2DGRUCell])
def test_channels_may_be_at_the_end(kind: Any) -> None:
    shape = (3, 5, 6)
    first = kind(shape, 2, 3, 3)
    last = kind((5, 6, 3), 2, 3, 3, conv_layout="NHWC")
    for cell in (first, last):
        cell.initialize("xavier")
    for name, param in last.collect_params().items():
        value = first.collect_params()[name.replace(last.prefix, first.prefix)].data().asnumpy()
        param.set_data(nd.array(np.moveaxis(value, 1, -1) if name.endswith("weight") else value))
    x = sequence(2, 3, *shape)
    expected, states = first.unroll(3, x, merge_outputs=True)
    found, after = last.unroll(3, nd.array(np.moveaxis(x.asnumpy(), 2, -1)), merge_outputs=True)
    close(nd.array(np.moveaxis(found.asnumpy(), -1, 2)), expected)
    assert after[0].shape == (2, *states[0].shape[2:], 2) == last.state_info(2)[0]["shape"]


def test_a_projected_cell_computes_what_a_projected_layer_computes() -> None:
    layer = rnn.LSTM(6, projection_size=3, input_size=5)
    layer.initialize("xavier")
    cell = crnn.LSTMPCell(6, 3)
    cell.initialize()
    x = sequence(4, 2, 5)
    cell.unroll(4, x, layout="TNC")
    for name, param in cell.collect_params().items():
        param.set_data(layer.collect_params()[f"{layer.prefix}l0_{name.removeprefix(cell.prefix)}"].data())
    expected, states = layer(x, layer.begin_state(2))
    found, after = cell.unroll(4, x, layout="TNC", merge_outputs=True)
    close(found, expected)
    for one, other in zip(after, states, strict=True):
        close(one, other[0])


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
@pytest.mark.parametrize("lengths", [None, [1, 4, 2]])
def test_a_loop_computes_what_unroll_computes(layout: str, lengths: list[int] | None) -> None:
    cell = rnn.LSTMCell(4)
    cell.initialize("xavier")
    x = sequence(*((3, 4, 5) if layout == "NTC" else (4, 3, 5)))
    valid = None if lengths is None else nd.array(lengths)
    begin = [sequence(3, 4), sequence(3, 4)]
    expected, states = cell.unroll(4, x, begin, layout, True, valid)
    found, after = dynamic_unroll(cell, x, begin, layout=layout, valid_length=valid)
    close(found, expected)
    assert len(after) == 2
    for one, other in zip(after, states, strict=True):
        close(one, other)


def test_a_loop_drops_the_same_features_at_all_steps() -> None:
    for share in ({"drop_inputs": 0.5}, {"drop_outputs": 0.5}):
        with autograd.record():
            found, _ = dynamic_unroll(Seen(), nd.ones((2, 5, 40)), [nd.zeros((2, 40))], layout="NTC", **share)
        values = found.asnumpy()
        assert set(np.unique(values)) == {0, 2}
        np.testing.assert_array_equal(values, values[:, :1].repeat(5, 1))
        assert (values[0] != values[1]).any()


def two_ways() -> Any:
    return rnn.BidirectionalCell(rnn.RNNCell(3), rnn.RNNCell(3))


def stacked() -> Any:
    stack = rnn.HybridSequentialRNNCell()
    stack.add(two_ways())
    return stack


REFUSED: dict[str, Callable[[], Any]] = {
    r"\[Conv1DRNNCell\] h2h_kernel: expected odd numbers, got 2": lambda: crnn.Conv1DRNNCell((3, 8), 2, 3, 2),
    "i2h_kernel: expected an integer or 1 of them": lambda: crnn.Conv1DRNNCell((3, 8), 2, (3, 3), 3),
    "layout: expected 'NCHW' or 'NHWC', got 'NCW'": lambda: crnn.Conv2DGRUCell(
        (3, 8, 8), 2, 3, 3, conv_layout="NCW"
    ),
    "layout: expected 'NCW', got 'NWC'": lambda: crnn.Conv1DRNNCell((8, 3), 2, 3, 3, conv_layout="NWC"),
    r"i2h_kernel: expected one that fits in input_shape \(3, 2\), got 3": lambda: crnn.Conv1DRNNCell(
        (3, 2), 2, 3, 3
    ),
    r"inputs: expected arrays or symbols, got \[\]": lambda: rnn.RNNCell(3).unroll(0, []),
    r"input_shape: expected 3 sizes, CHW, got \(3, 8\)": lambda: crnn.Conv2DLSTMCell((3, 8), 2, 3, 3),
    "drop_states: .* reads in both directions": lambda: crnn.VariationalDropoutCell(
        two_ways(), drop_states=0.1
    ),
    "drop_states: .* makes no steps": lambda: crnn.VariationalDropoutCell(stacked(), drop_states=0.1),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses(message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        REFUSED[message]()


def test_graphs_have_no_loops() -> None:
    with pytest.raises(ArgumentError, match="graphs have no loops here; cell.unroll"):
        dynamic_unroll(rnn.RNNCell(3), sym.var("x"), [sym.var("h")])


def test_states_of_a_stack_are_dropped() -> None:
    stack = rnn.HybridSequentialRNNCell()
    stack.add(rnn.RNNCell(3))
    cell = crnn.VariationalDropoutCell(stack, drop_states=0.5)
    cell.initialize()
    outputs, _ = cell.unroll(2, sequence(1, 2, 4), merge_outputs=True)
    assert outputs.shape == (1, 2, 3)
