# SPDX-License-Identifier: Apache-2.0
"""Estimated costs of nodes, for the choice of recomputation and branches.

The roofline model (Williams et al., 2009) with one machine balance: a node takes as long as moving its
bytes, or as its arithmetic where that takes longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from mx_core.kernels import TensorSpec
from mx_symbol.graph import Entry, Node
from mx_symbol.passes.bound_graph import bytes_of

#: floating-point operations that a CPU does while it moves a byte
FLOPS_PER_BYTE = 16.0
#: bytes that one core moves in a microsecond, and what calling a kernel takes
BYTES_PER_MICROSECOND, CALL_MICROSECONDS = 8e3, 0.1

#: what waiting for other devices takes, at least: the pushing thread must not, since it pushes their operations
WAITING_MICROSECONDS = 1e3

#: operators whose every output element is a product with a row of the second input
_WEIGHTED = frozenset({"Convolution", "FullyConnected"})
_PRODUCTS = frozenset({"dot", "batch_dot", "_linalg_gemm2"})


def flops(node: Node, specs: Mapping[Entry, TensorSpec]) -> float:
    """Floating-point operations of products and convolutions, forward and backward; 0 for all else."""
    assert node.op is not None
    name = node.op.name.removeprefix("_backward_")
    backward = name != node.op.name
    if node.op.name == "RNN":  # every step multiplies by all weights
        steps, batch = specs[node.inputs[0]].shape[:2]
        return 2.0 * steps * batch * prod(specs[node.inputs[1]].shape)
    if name not in _WEIGHTED | _PRODUCTS or len(node.inputs) < 2 + backward:
        return 0.0
    shapes = [specs[entry].shape for entry in node.inputs]
    # a backward node reads the output's gradient first, and does two products
    out = shapes[0] if backward else specs[Entry(node)].shape
    left, right = shapes[backward : backward + 2]
    if name in _WEIGHTED:
        inner = float(prod(right[1:]))
    else:
        batch = left[0] if name == "batch_dot" else 1
        inner = (prod(left) * prod(right) / max(prod(out) * batch, 1)) ** 0.5
    return (4.0 if backward else 2.0) * prod(out) * inner


def cost(node: Node, specs: Mapping[Entry, TensorSpec]) -> float:
    """Cost of a node in bytes moved."""
    moved = sum(bytes_of(specs[entry]) for entry in node.inputs)
    moved += sum(bytes_of(specs[Entry(node, i)]) for i in range(node.num_visible_outputs))
    return max(float(moved), flops(node, specs) / FLOPS_PER_BYTE)


def microseconds(node: Node, specs: Mapping[Entry, TensorSpec]) -> float:
    """About what a node takes on one core, its call included."""
    assert node.op is not None
    if node.op.name.removeprefix("_backward") == "_contrib_SyncBatchNorm":
        return WAITING_MICROSECONDS
    return CALL_MICROSECONDS + cost(node, specs) / BYTES_PER_MICROSECOND
