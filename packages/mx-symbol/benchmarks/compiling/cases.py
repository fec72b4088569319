# SPDX-License-Identifier: Apache-2.0
"""The graphs whose compilation is timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mx_symbol import sym
from mx_symbol.testing.networks.recurrent import unrolled_lstm
from mx_symbol.testing.networks.resnet import resnet50_v1


class Case(NamedTuple):
    """A graph, the shapes of its inputs, whether it is differentiated, and by which inputs it is not."""

    net: sym.Symbol
    shapes: dict[str, tuple[int, ...]]
    training: bool
    fixed: tuple[str, ...] = ()


def chain(nodes: int) -> Case:
    """Additions and tanh in turn on 4 × 4 values, with gradients of both variables."""
    x, y = sym.Variable("data"), sym.Variable("other")
    net = x
    for _ in range(nodes // 2):
        net = sym.tanh(net + y)
    return Case(net, {"data": (4, 4), "other": (4, 4)}, True)


def lstm() -> Case:
    """The language model of 2 layers and 35 steps, unrolled, batch 2, with gradients."""
    states = {name: (2, 650) for name in ("h0", "c0", "h1", "c1")}
    return Case(unrolled_lstm(), {"data": (2, 35), **states}, True, ("data",))


def resnet50() -> Case:
    """One image."""
    return Case(resnet50_v1(), {"data": (1, 3, 224, 224)}, False)


CASES: dict[str, Callable[[], Case]] = {
    "chain of 1000 nodes, training": lambda: chain(1000),
    "chain of 4000 nodes, training": lambda: chain(4000),
    "chain of 16000 nodes, training": lambda: chain(16_000),
    "LSTM, 2 layers, 35 steps, training": lstm,
    "ResNet-50, inference": resnet50,
}
