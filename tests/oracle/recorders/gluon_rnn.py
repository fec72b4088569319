# SPDX-License-Identifier: Apache-2.0
"""Records what MXNet 1.9.1's recurrent cells and layers of Gluon compute. Runs under Python 3.8.

python gluon_rnn.py             records the cases below anew
python gluon_rnn.py --check     compares with what is recorded, and changes nothing
"""

import os
import sys

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import mxnet as mx
import numpy as np
from common import write_or_check
from mxnet import autograd, nd
from mxnet.gluon import rnn

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "gluon", "rnn.json")

#: makes stacks of cells, in both libraries
STACKS = """
def stack(kind, *cells):
    made = kind(prefix="stack_")
    for cell in cells:
        made.add(cell)
    return made
"""
#: cells, which are unrolled over (2, 4, 3) inputs
CELLS = [
    "rnn.RNNCell(5, prefix='a_')",
    "rnn.RNNCell(5, activation='relu', prefix='a_')",
    "rnn.RNNCell(5, activation='softsign', prefix='a_')",
    "rnn.LSTMCell(5, prefix='a_')",
    "rnn.LSTMCell(5, activation='relu', recurrent_activation='tanh', prefix='a_')",
    "rnn.GRUCell(5, prefix='a_', input_size=3)",
    "stack(rnn.SequentialRNNCell, rnn.LSTMCell(5, prefix='a_'), rnn.GRUCell(4, prefix='b_'))",
    "stack(rnn.HybridSequentialRNNCell, rnn.RNNCell(5, prefix='a_'), rnn.DropoutCell(0.0), rnn.LSTMCell(2, prefix='b_'))",
    "rnn.BidirectionalCell(rnn.LSTMCell(5, prefix='l_'), rnn.LSTMCell(4, prefix='r_'))",
    "rnn.BidirectionalCell(rnn.GRUCell(5, prefix='l_'), rnn.RNNCell(4, prefix='r_'))",
    "stack(rnn.SequentialRNNCell, rnn.BidirectionalCell(rnn.GRUCell(2, prefix='l_'), rnn.GRUCell(2, prefix='r_')), "
    "rnn.RNNCell(3, prefix='b_'))",
    "rnn.ResidualCell(rnn.GRUCell(3, prefix='a_'))",
    "rnn.ZoneoutCell(rnn.LSTMCell(5, prefix='a_'))",
    "rnn.ZoneoutCell(rnn.RNNCell(5, prefix='a_'), 0.5, 0.3)",
]
#: how they are unrolled
WAYS = [
    {"merge_outputs": None},
    {"merge_outputs": True, "layout": "NTC"},
    {"merge_outputs": False, "layout": "TNC"},
    {"merge_outputs": None, "valid": [2, 4]},
    {"merge_outputs": True, "valid": [4, 1]},
    {"merge_outputs": False, "valid": [3, 2], "steps": True},
]
#: layers, on (4, 2, 3) inputs in the layout TNC
LAYERS = [
    "rnn.RNN(5, prefix='n_')",
    "rnn.RNN(5, 2, 'tanh', 'NTC', prefix='n_')",
    "rnn.LSTM(5, prefix='n_')",
    "rnn.LSTM(5, 2, 'NTC', bidirectional=True, prefix='n_')",
    "rnn.LSTM(4, 2, dropout=0.5, input_size=3, prefix='n_')",
    "rnn.LSTM(4, projection_size=2, prefix='n_')",
    "rnn.LSTM(4, 2, projection_size=3, bidirectional=True, prefix='n_')",
    "rnn.GRU(5, prefix='n_')",
    "rnn.GRU(3, 3, 'NTC', bidirectional=True, prefix='n_')",
    "rnn.GRU(4, 2, prefix='n_')",
]
NAMES = {"rnn": rnn}
exec(STACKS, NAMES)


def wave(shape, shift, scale=1.0):
    """Numbers that are different everywhere."""
    places = np.arange(int(np.prod(shape)), dtype="float64")
    return (scale * np.sin(places * 0.61 + places**2 * 1e-3 + shift)).reshape(shape).astype("float32")


def fill(block):
    """Gives parameters values that follow from their names."""
    for name, parameter in sorted(block.collect_params().items()):
        parameter.set_data(nd.array(wave(parameter.shape, len(name), 0.7)))


def listed(value):
    """Arrays in nested lists as lists of numbers, with their shapes."""
    if isinstance(value, (list, tuple)):
        return [listed(each) for each in value]
    return {"shape": list(value.shape), "values": [float("%.7g" % each) for each in value.asnumpy().ravel()]}


def total(value):
    """The sum of all numbers, each with a weight of its own."""
    if isinstance(value, (list, tuple)):
        return sum((i + 1) * total(each) for i, each in enumerate(value))
    weights = nd.array(wave(value.shape, 1.0))
    return (value * weights).sum()


def gradients(block):
    """Of all parameters that have one."""
    found = block.collect_params().items()
    return {
        name: listed(parameter.grad()) for name, parameter in sorted(found) if parameter.grad_req != "null"
    }


def unrolled(expression, way):
    """A cell on four steps."""
    cell = eval(expression, NAMES)
    layout = way.get("layout", "NTC")
    data = nd.array(wave((2, 4, 3) if layout == "NTC" else (4, 2, 3), 0.5))
    axis = layout.find("T")
    inputs = (
        [data.take(nd.array([i]), axis=axis).squeeze(axis=axis) for i in range(4)]
        if way.get("steps")
        else data
    )
    valid = nd.array(way["valid"]) if "valid" in way else None
    options = {"layout": layout, "merge_outputs": way["merge_outputs"], "valid_length": valid}
    cell.initialize()
    cell.unroll(4, inputs, **options)
    fill(cell)
    with autograd.record(train_mode=False):
        outputs, states = cell.unroll(4, inputs, **options)
        loss = total([outputs, states]) if states else total(outputs)
    if cell.collect_params():
        loss.backward()
    return {
        "repr": repr(cell), "outputs": listed(outputs), "states": listed(states), "gradients": gradients(cell),
        "state_info": cell.state_info(7), "names": sorted(cell.collect_params()),
        "attributes": sorted(cell._collect_params_with_prefix()),
    }  # fmt: skip


def attempted(function, *args):
    """What a function gives, or None where MXNet fails."""
    try:
        return function(*args)
    except Exception as error:
        print(args, str(error).splitlines()[-1][:150], file=sys.stderr)
        return None


def graph(expression):
    """What a cell makes of symbols."""
    cell = eval(expression, NAMES)
    outputs, states = cell.unroll(3, mx.sym.Variable("data"), layout="NTC", merge_outputs=True)
    made = mx.sym.Group([outputs, *states])
    return {"arguments": made.list_arguments(), "outputs": made.list_outputs()}


def computed(expression, given):
    """A layer on four steps, with or without states."""
    layer = eval(expression, NAMES)
    layout = layer._layout
    data = nd.array(wave((4, 2, 3) if layout == "TNC" else (2, 4, 3), 0.5))
    layer.initialize()
    layer(data)
    fill(layer)
    states = [nd.array(wave(info["shape"], 2.0)) for info in layer.state_info(2)]
    trains = layer._projection_size is None  # MXNet trains no projections on CPUs
    with autograd.record(train_mode=False) if trains else autograd.pause():
        found = layer(data, states) if given else layer(data)
        loss = total([found[0], list(found[1])] if given else found)
    if trains:
        loss.backward()
    return {
        "repr": repr(layer), "found": listed(found), "gradients": gradients(layer) if trains else None,
        "names": list(layer.collect_params()), "attributes": sorted(layer._collect_params_with_prefix()),
        "state_info": layer.state_info(7),
    }  # fmt: skip


def everything():
    """All of it."""
    return {
        "stacks": STACKS,
        "ways": WAYS,
        "cells": {each: [attempted(unrolled, each, way) for way in WAYS] for each in CELLS},
        "graphs": {each: attempted(graph, each) for each in CELLS},
        "layers": {
            each: [attempted(computed, each, given) for given in (False, True)]
            for each in dict.fromkeys(LAYERS)
        },
    }


if __name__ == "__main__":
    write_or_check(FILE, everything(), 1e-5, indent=None)
