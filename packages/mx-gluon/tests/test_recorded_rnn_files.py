# SPDX-License-Identifier: Apache-2.0
"""Files of recurrent networks: those of MXNet 1.9.1 are read, and the same bytes are written (`tests/oracle/gluon`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mx_gluon import SymbolBlock, nn, rnn
from mx_ndarray import nd
from mx_symbol import NameManager, sym
from testkit.gluon_record import FOLDER

pytestmark = pytest.mark.timeout(60)
with np.load(FOLDER / "contrib_rnn.npz") as file:
    DATA = {name.removeprefix("files/"): value for name, value in file.items() if name.startswith("files/")}


def test_parameters_of_cells(tmp_path: Path) -> None:
    for name in ("cells", "cells-named"):
        cell = rnn.HybridSequentialRNNCell(prefix="c_")
        with cell.name_scope():
            cell.add(rnn.BidirectionalCell(rnn.LSTMCell(2, prefix="l_"), rnn.GRUCell(3, prefix="r_")))
            cell.add(rnn.LSTMCell(2))
        cell.load_parameters(FOLDER / f"rnn-{name}.params")
        found, _ = cell.unroll(3, nd.array(DATA["x"]), layout="TNC", merge_outputs=True)
        np.testing.assert_allclose(found.asnumpy(), DATA["cells"], rtol=1e-4, atol=1e-5)
        cell.save_parameters(tmp_path / "cells.params")
        cell.collect_params().save(tmp_path / "cells-named.params", strip_prefix="c_")
        assert (tmp_path / f"{name}.params").read_bytes() == (FOLDER / f"rnn-{name}.params").read_bytes()


def test_parameters_of_layers(tmp_path: Path) -> None:
    for name in ("layer", "layer-named"):
        net = rnn.LSTM(3, 2, bidirectional=True, prefix="l_")
        net.load_parameters(FOLDER / f"rnn-{name}.params")
        np.testing.assert_allclose(net(nd.array(DATA["x"])).asnumpy(), DATA["layer"], rtol=1e-4, atol=1e-5)
        net.save_parameters(tmp_path / "layer.params")
        net.collect_params().save(tmp_path / "layer-named.params", strip_prefix="l_")
        assert (tmp_path / f"{name}.params").read_bytes() == (FOLDER / f"rnn-{name}.params").read_bytes()
    stack = rnn.LSTM(3, 2, bidirectional=True, prefix="l_")._unfuse()
    stack.load_parameters(FOLDER / "rnn-layer-named.params")
    found, _ = stack.unroll(3, nd.array(DATA["x"]), layout="TNC", merge_outputs=True)
    np.testing.assert_allclose(found.asnumpy(), DATA["layer"], rtol=1e-4, atol=1e-5)


def test_graphs_of_mxnet_run_here_and_the_same_ones_are_written(tmp_path: Path) -> None:
    symbol, params = str(FOLDER / "rnn-symbol.json"), str(FOLDER / "rnn-0000.params")
    net = SymbolBlock.imports(symbol, ["data"], params)
    words = nd.array(DATA["words"])
    np.testing.assert_allclose(net(words).asnumpy(), DATA["net"], rtol=1e-4, atol=1e-5)
    with NameManager():
        own = nn.HybridSequential(prefix="f_")
        with own.name_scope():
            own.add(nn.Embedding(6, 4), rnn.LSTM(3, 2, bidirectional=True, layout="NTC"), nn.Dense(2))
    own.initialize()
    own.hybridize()
    own(words)
    for name, value in nd.load(params).items():
        own.collect_params()[name.partition(":")[2]].set_data(value)
    own.export(str(tmp_path / "rnn"))
    assert (tmp_path / "rnn-0000.params").read_bytes() == (FOLDER / "rnn-0000.params").read_bytes()
    written, recorded = (sym.load(str(folder / "rnn-symbol.json")) for folder in (tmp_path, FOLDER))
    assert written.list_arguments() == recorded.list_arguments()
    assert written.get_internals().list_outputs() == recorded.get_internals().list_outputs()
