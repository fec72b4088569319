# SPDX-License-Identifier: Apache-2.0
"""Weights of fused recurrent layers, which our symbols pack into one array and other frameworks keep apart."""

from __future__ import annotations

from typing import Any


def packed_weights(graph: dict[str, Any]) -> dict[str, list[tuple[int, int]]]:
    """Name of each packed array -> shapes of the weights in it, input and recurrent per layer; biases follow."""
    found = {}
    for node in graph["nodes"]:
        if node["op"] == "RNN":
            source, _ = node["inputs"][0]
            width, hidden = graph["nodes"][source]["shapes"][0][2], node["attrs"]["state_size"]
            inputs = [width, *[hidden] * (node["attrs"]["num_layers"] - 1)]
            name = graph["nodes"][node["inputs"][1][0]]["name"]
            found[name] = [(4 * hidden, columns) for first in inputs for columns in (first, hidden)]
    return found


def pieces(flat: Any, shapes: list[tuple[int, int]]) -> tuple[list[Any], Any]:
    """The weights in a packed array, and what is behind them."""
    weights, at = [], 0
    for rows, columns in shapes:
        weights.append(flat[at : at + rows * columns].reshape(rows, columns))
        at += rows * columns
    return weights, flat[at:]
