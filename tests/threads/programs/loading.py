# SPDX-License-Identifier: Apache-2.0
"""Threads whose first act needs the plug-ins: they are loaded once, and all of them find everything."""

from __future__ import annotations

from threads import beside

from mx_core import operators, plugins
from mx_core.services import engine


def operator() -> None:
    assert operators.find("tanh") is not None


def service() -> None:
    assert engine() is engine()


def array() -> None:
    from mx_ndarray import nd

    assert (nd.ones((2,)) * 3).asnumpy().tolist() == [3, 3]


def store() -> None:
    from mx_kvstore import create
    from mx_ndarray import nd

    kept, out = create("local"), nd.zeros((2,))
    kept.init(3, nd.ones((2,)))
    kept.pull(3, out=out)
    assert out.asnumpy().tolist() == [1, 1]


def symbol() -> None:
    from mx_symbol import sym

    assert sym.relu(sym.Variable("x")).list_arguments() == ["x"]


def listing() -> None:
    states = {record.name: record.state for record in plugins.plugins()}
    assert states["engine"] == states["ndarray"] == "loaded"


FIRST = (operator, service, array, store, symbol, listing)

if __name__ == "__main__":
    beside(lambda thread: FIRST[thread % len(FIRST)](), 2 * len(FIRST))
    print("done")
