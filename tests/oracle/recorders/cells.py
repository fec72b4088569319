# SPDX-License-Identifier: Apache-2.0
"""Records graphs, numbers and weights of MXNet 1.9.1's recurrent cells. Runs under Python 3.8.

python cells.py             records the cells below anew
python cells.py --check     compares with what is recorded, and changes nothing
"""

import json
import os
import sys

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import mxnet as mx
import numpy as np
from common import differences
from mxnet import rnn

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "training")
TOLERANCE = {"rnn_cells": 2e-5, "rnn_convolutional": 2e-4}


def stacked(*cells):
    stack = rnn.SequentialRNNCell()
    for cell in cells:
        stack.add(cell)
    return stack


def fused(mode="lstm", num_layers=2, **kwargs):
    return rnn.FusedRNNCell(4, num_layers=num_layers, mode=mode, **kwargs)


#: the tests make the same cells
CELLS = {
    "rnn": lambda: rnn.RNNCell(4),
    "rnn_relu": lambda: rnn.RNNCell(4, activation="relu", prefix="x_"),
    "lstm": lambda: rnn.LSTMCell(4),
    "lstm_fb": lambda: rnn.LSTMCell(4, prefix="q_", forget_bias=2.0),
    "gru": lambda: rnn.GRUCell(4),
    "fused_lstm": lambda: rnn.FusedRNNCell(4),
    "fused_gru2": lambda: fused("gru", get_next_state=True),
    "fused_bi": lambda: fused(bidirectional=True, dropout=0.5, get_next_state=True, prefix="f_"),
    "fused_tanh": lambda: fused("rnn_tanh", 1),
    "fused_relu": lambda: fused("rnn_relu", 1, get_next_state=True),
    "zone_lstm": lambda: rnn.ZoneoutCell(rnn.LSTMCell(4), zoneout_outputs=0.3, zoneout_states=0.2),
    "zone_o": lambda: rnn.ZoneoutCell(rnn.RNNCell(4), zoneout_outputs=0.3),
    "zone_s": lambda: rnn.ZoneoutCell(rnn.GRUCell(4), zoneout_states=0.3),
    "res": lambda: rnn.ResidualCell(rnn.GRUCell(4)),
    "drop": lambda: rnn.DropoutCell(0.3),
    "bi": lambda: rnn.BidirectionalCell(
        rnn.LSTMCell(4, prefix="l_"), rnn.GRUCell(3, prefix="r_"), output_prefix="o_"
    ),
    "unfuse": lambda: fused(dropout=0.4).unfuse(),
    "unfuse_bi": lambda: fused("gru", bidirectional=True, dropout=0.4).unfuse(),
    "unfuse_relu": lambda: fused("rnn_relu", 1).unfuse(),
    "unfuse_tanh": lambda: fused("rnn_tanh", 1).unfuse(),
    "seq": lambda: stacked(
        rnn.LSTMCell(4, prefix="a_"),
        rnn.DropoutCell(0.3, prefix="d_"),
        rnn.ResidualCell(rnn.RNNCell(4, prefix="b_")),
    ),
    "seqf": lambda: stacked(
        rnn.FusedRNNCell(4, mode="lstm", prefix="a_", get_next_state=True),
        rnn.DropoutCell(0.3, prefix="d_"),
        rnn.FusedRNNCell(3, mode="gru", prefix="b_"),
    ),
    "seqbi": lambda: stacked(
        rnn.BidirectionalCell(rnn.RNNCell(4, prefix="l_"), rnn.RNNCell(4, prefix="r_")),
        rnn.ZoneoutCell(rnn.LSTMCell(2, prefix="z_"), 0.1, 0.1),
    ),
}
CONVOLUTIONAL = {
    "ConvRNNCell": lambda: rnn.ConvRNNCell((1, 3, 6, 6), 2),
    "ConvLSTMCell": lambda: rnn.ConvLSTMCell(
        (1, 3, 6, 6), 2, h2h_kernel=(5, 3), i2h_stride=(2, 1), i2h_pad=(0, 1), activation="tanh", prefix="p_"
    ),
    "ConvGRUCell": lambda: rnn.ConvGRUCell(
        (1, 3, 6, 6), 2, h2h_dilate=(2, 1), i2h_kernel=(1, 1), i2h_pad=(0, 0)
    ),
}


def flat(states):
    """States of nested cells in order."""
    for state in states:
        yield from flat(state) if isinstance(state, list) else [state]


def described(symbol):
    """Nodes and heads of a graph."""
    graph = json.loads(symbol.tojson())
    nodes = [[n["op"], n["name"], n.get("attrs", {}), [i[:2] for i in n["inputs"]]] for n in graph["nodes"]]
    return {"heads": [head[:2] for head in graph["heads"]], "nodes": nodes}


def executed(net, shape):
    """An executor with arguments from one sequence of random numbers, and its outputs."""
    executor = net.simple_bind(mx.cpu(), data=shape)
    random = np.random.RandomState(1)
    for key in sorted(executor.arg_dict):
        executor.arg_dict[key][:] = random.uniform(-1, 1, executor.arg_dict[key].shape)
    outputs = [value.asnumpy() for value in executor.forward()]
    return executor, [[list(value.shape), rounded(value.ravel(), 5)] for value in outputs]


def rounded(values, digits):
    return [round(float(value), digits) for value in values]


def cell(make):
    """A cell unrolled for two steps, and its weights apart."""
    with mx.name.NameManager():
        outputs, states = make().unroll(2, mx.sym.Variable("data"), layout="TNC", merge_outputs=True)
    net = mx.sym.Group([outputs] + list(flat(states)))
    executor, numbers = executed(net, (2, 3, 4))
    arguments = {key: value for key, value in executor.arg_dict.items() if key != "data"}
    unpacked = make().unpack_weights(arguments)
    sums = {
        key: [list(unpacked[key].shape), round(float(unpacked[key].asnumpy().astype("float64").sum()), 4)]
        for key in sorted(unpacked)
    }
    return dict(described(net), outputs=numbers, unpacked=sums)


def convolutional(make):
    """A cell that convolves, unrolled for two steps."""
    made = make()
    with mx.name.NameManager():
        outputs, states = made.unroll(2, mx.sym.Variable("data"), merge_outputs=True)
    net = mx.sym.Group([outputs] + list(states))
    shapes = [list(info["shape"]) for info in made.state_info]
    return dict(described(net), outputs=executed(net, (1, 2, 3, 6, 6))[1], states=shapes)


def of_a_list():
    """A graph unrolled over two separate inputs."""
    with mx.name.NameManager():
        outputs, states = CELLS["seq"]().unroll(2, [mx.sym.Variable("a"), mx.sym.Variable("b")])
    return described(mx.sym.Group(list(outputs) + list(states)))


def main():
    check = sys.argv[1:] == ["--check"]
    found = {
        "rnn_cells": dict({name: cell(make) for name, make in CELLS.items()}, list=of_a_list()),
        "rnn_convolutional": {name: convolutional(make) for name, make in CONVOLUTIONAL.items()},
    }
    differing = False
    for name, made in found.items():
        path = os.path.join(DATA, name + ".json")
        with open(path) as file:
            lines = differences(json.load(file), made, TOLERANCE[name])
        print("\n".join(lines) or f"{name}: as recorded")
        differing = differing or bool(lines)
        if not check:
            rows = (
                '"{}": {}'.format(key, json.dumps(value, separators=(",", ":")))
                for key, value in made.items()
            )
            with open(path, "w") as file:
                file.write("{\n" + ",\n".join(rows) + "\n}\n")
    if check:
        sys.exit(differing)


if __name__ == "__main__":
    main()
