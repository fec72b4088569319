# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network, as a symbol and as imperative code."""

from __future__ import annotations

from typing import Any

import mx

CLASSES = 10


def symbol() -> Any:
    """Two convolution blocks with batch normalisation, dropout, one hidden layer."""
    net = mx.sym.Variable("data")
    for block, filters in enumerate((32, 64), 1):
        net = mx.sym.Convolution(
            net, kernel=(3, 3), pad=(1, 1), num_filter=filters, no_bias=True, name=f"conv{block}"
        )
        net = mx.sym.BatchNorm(net, fix_gamma=False, name=f"bn{block}")
        net = mx.sym.Activation(net, act_type="relu", name=f"relu{block}")
        net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{block}")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=128, name="fc1")
    net = mx.sym.Dropout(mx.sym.Activation(net, act_type="relu", name="relu3"), p=0.4, name="drop")
    net = mx.sym.FullyConnected(net, num_hidden=CLASSES, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


class Imperative:
    """The same network written with `mx.nd` functions, trained with `mx.autograd`."""

    def __init__(self) -> None:
        shapes, _, states = symbol().infer_shape(data=(1, 3, 28, 28))
        names, auxiliaries = symbol().list_arguments(), symbol().list_auxiliary_states()
        initializer = mx.init.Xavier()
        self.params, self.states = {}, {}
        for table, keys, sizes in ((self.params, names, shapes), (self.states, auxiliaries, states)):
            for name, shape in zip(keys, sizes, strict=True):
                if name not in ("data", "softmax_label"):
                    table[name] = mx.nd.zeros(shape)
                    initializer(name, table[name])
        for array in self.params.values():
            array.attach_grad()

    def __call__(self, x: Any) -> Any:
        """Class scores of a batch (N, 3, 28, 28)."""
        p, s = self.params, self.states
        for block in (1, 2):
            x = mx.nd.Convolution(
                x, p[f"conv{block}_weight"], kernel=(3, 3), pad=(1, 1), num_filter=32 * block, no_bias=True
            )
            norm = [
                p[f"bn{block}_gamma"],
                p[f"bn{block}_beta"],
                s[f"bn{block}_moving_mean"],
                s[f"bn{block}_moving_var"],
            ]
            x = mx.nd.relu(mx.nd.BatchNorm(x, *norm, fix_gamma=False))
            x = mx.nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
        x = mx.nd.relu(mx.nd.FullyConnected(x, p["fc1_weight"], p["fc1_bias"], num_hidden=128))
        return mx.nd.FullyConnected(
            mx.nd.Dropout(x, p=0.4), p["fc2_weight"], p["fc2_bias"], num_hidden=CLASSES
        )
