# SPDX-License-Identifier: Apache-2.0
"""Every operator name of Apache MXNet 1.9.1 is here, or absent for a reason that is written down."""

from __future__ import annotations

import json

import pytest

from mx_core import operators
from testkit.oracle import ORACLE

#: kind -> operator -> aliases, as MXNet's registry lists them
NAMES: dict[str, dict[str, list[str]]] = json.loads((ORACLE / "names" / "operators.json").read_text())

#: reason -> names
ABSENT = {
    "entries of MXNet's executor, which symbols and arrays do without": (
        "_CachedOp _CachedOpThreadSafe _CrossDeviceCopy _CustomFunction _Native _NDArray _NoGradient "
        "_set_value _zeros_without_dtype"
    ),
    "graphs inside graphs": "_cond _foreach _while_loop",
    "image files and borders are mx-io's": "_imdecode _cvcopyMakeBorder _cvimdecode _cvimread _cvimresize",
    "sparse storage is not offered": (
        "_contrib_dgl_adjacency _contrib_dgl_csr_neighbor_non_uniform_sample "
        "_contrib_dgl_csr_neighbor_uniform_sample _contrib_dgl_graph_compact _contrib_dgl_subgraph "
        "_contrib_edge_id _contrib_getnnz _contrib_SparseEmbedding _scatter_elemwise_div "
        "_scatter_minus_scalar _scatter_plus_scalar _sparse_retain _square_sum cast_storage"
    ),
}
REASON = {name: reason for reason, names in ABSENT.items() for name in names.split()}
#: what other packages bring, where they are installed
ELSEWHERE = frozenset({"Custom"})
#: namespaces of NumPy-like and sparse arrays; dense operators have their names without these
NAMESPACES = ("_np_", "_npi_", "_npx_", "_sparse_")


@pytest.mark.parametrize("kind", sorted(NAMES))
def test_operators_of_mxnet(kind: str) -> None:
    missing = [name for name in NAMES[kind] if operators.find(name) is None]
    assert sorted(set(missing) - set(REASON) - ELSEWHERE) == []


@pytest.mark.parametrize("kind", sorted(NAMES))
def test_aliases_mean_the_same(kind: str) -> None:
    for name, aliases in NAMES[kind].items():
        if name in REASON or name in ELSEWHERE:
            continue
        for alias in aliases:
            if not alias.startswith(NAMESPACES):
                found = operators.find(alias)
                assert found is operators.get(name), f"{alias}: expected {name}, got {found}"


def test_what_is_absent_is_still_absent() -> None:
    assert [name for name in REASON if operators.find(name) is not None] == []
    assert set(REASON) <= {name for names in NAMES.values() for name in names}
