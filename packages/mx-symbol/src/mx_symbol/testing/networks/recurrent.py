# SPDX-License-Identifier: Apache-2.0
"""Language models of LSTM cells: as one operator, and unrolled into plain ones."""

from __future__ import annotations

from mx_symbol import sym


def lstm_language_model(words: int = 10_000, hidden: int = 650, layers: int = 2) -> sym.Symbol:
    """Embedding, a fused LSTM and a linear layer; `data` is (time, batch) word numbers.

    The states `begin_h`, `begin_c` are (layers, batch, hidden).
    """
    x = sym.Embedding(sym.Variable("data"), input_dim=words, output_dim=hidden)
    x = sym.RNN(
        x, sym.Variable("rnn_parameters"), sym.Variable("begin_h"), sym.Variable("begin_c"),
        state_size=hidden, num_layers=layers, mode="lstm",
    )  # fmt: skip
    return sym.FullyConnected(sym.reshape(x, shape=(-1, hidden)), num_hidden=words)


def unrolled_lstm(steps: int = 35, words: int = 10_000, hidden: int = 650, layers: int = 2) -> sym.Symbol:
    """The same written as a graph of `steps` cells a layer; `data` is (batch, time) word numbers.

    States `h0`, `c0`, `h1`, ... are (batch, hidden).
    """
    x = sym.Embedding(sym.Variable("data"), input_dim=words, output_dim=hidden)
    inputs = list(sym.split(x, num_outputs=steps, axis=1, squeeze_axis=True))
    for layer in range(layers):
        weights = {name: sym.Variable(f"l{layer}_{name}") for name in ("i2h_weight", "i2h_bias")}
        recurrent = {name: sym.Variable(f"l{layer}_{name}") for name in ("h2h_weight", "h2h_bias")}
        h, c = sym.Variable(f"h{layer}"), sym.Variable(f"c{layer}")
        for step, x in enumerate(inputs):
            gates = sym.FullyConnected(
                x, weights["i2h_weight"], weights["i2h_bias"], num_hidden=4 * hidden
            ) + sym.FullyConnected(h, recurrent["h2h_weight"], recurrent["h2h_bias"], num_hidden=4 * hidden)
            i, f, g, o = sym.split(gates, num_outputs=4, axis=1)
            c = sym.sigmoid(f) * c + sym.sigmoid(i) * sym.tanh(g)
            inputs[step] = h = sym.sigmoid(o) * sym.tanh(c)
    return sym.FullyConnected(sym.concat(*inputs, dim=0), num_hidden=words)
