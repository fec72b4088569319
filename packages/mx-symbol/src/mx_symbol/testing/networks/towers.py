# SPDX-License-Identifier: Apache-2.0
"""A network of independent branches, for tests of parallel branches."""

from __future__ import annotations

from mx_symbol import Symbol, sym


def towers(n: int, depth: int, width: int) -> Symbol:
    """Towers of fully connected layers, joined at the top."""
    tops = []
    data = sym.Variable("data")
    for t in range(n):
        x = data
        for d in range(depth):
            x = sym.tanh(sym.FullyConnected(x, num_hidden=width, name=f"t{t}_{d}"))
        tops.append(x)
    return sym.Concat(*tops, dim=1)
