# SPDX-License-Identifier: Apache-2.0
"""`pickle.dumps` of an Updater, by MXNet and by versions of mx, is read as data by `set_states`."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from mx_core.errors import ArgumentError, FileFormatError
from mx_ndarray import nd
from mx_train import optimizer

#: by MXNet 1.9.1: SGD of momentum 0.9 and rate 0.1, three updates of two ones with gradients 0.5 and -1
MXNET = (Path(__file__).parent / "data" / "updater.pickle").read_bytes()
GRADIENT = np.array([0.5, -1], np.float32)


def updater(**settings):
    settings = {"learning_rate": 0.1, "momentum": 0.9, "param_idx2name": {0: "w"}} | settings
    return optimizer.get_updater(optimizer.create("sgd", **settings))


def trained():
    made, weight = updater(), nd.ones((2,))
    for _ in range(3):
        made(0, nd.array(GRADIENT), weight)
    return made, weight


def next_weight(made, weight):
    made(0, nd.array(GRADIENT), weight)
    return weight.asnumpy()


def test_one_of_mxnet_goes_on_where_it_was():
    made = updater()
    made.set_states(MXNET)
    assert made.optimizer.num_update == 3
    np.testing.assert_allclose(made.states[0].asnumpy(), [-0.1355, 0.271], rtol=1e-6)
    found = next_weight(made, nd.array([0.7195, 1.561]))
    np.testing.assert_allclose(found, next_weight(*trained()), rtol=1e-6)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("module", ["mx_train.optimizer.base", "mx_train.optimizer.optimizer"])
def test_one_of_any_version_of_mx_goes_on_where_it_was(protocol, module):
    before, weight = trained()
    data = pickle.dumps(before, protocol)
    now = b"mx_train.optimizer.base"
    if protocol < 4:
        data = data.replace(now, module.encode())
    else:  # texts with their length, in frames whose length is not read
        data = data.replace(bytes([len(now)]) + now, bytes([len(module)]) + module.encode())
    made = updater()
    made.set_states(data)
    assert made.optimizer.num_update == 3
    np.testing.assert_array_equal(next_weight(made, weight.copy()), next_weight(before, weight))


def test_settings_are_compared_and_another_optimizer_is_refused(caplog):
    made = updater(momentum=0.5)
    made.set_states(MXNET)
    assert "momentum 0.9 in the file, 0.5 here" in caplog.text and made.optimizer.momentum == 0.5
    other = optimizer.get_updater(optimizer.create("adam"))
    with pytest.raises(ArgumentError, match="SGD"):
        other.set_states(MXNET)


@pytest.mark.parametrize("state", [{}, {"states": 3}, {"states": {0: None}, "optimizer": {}}])
def test_an_updater_without_states_or_optimizer_is_refused_or_bare(state):
    data = b"\x80\x02cmxnet.optimizer.optimizer\nUpdater\n)\x81" + pickle.dumps(state, 2)[2:-1] + b"b."
    if state.get("states") == {0: None}:
        made = updater()
        made.set_states(data)
        assert made.states == {0: None}
    else:
        with pytest.raises(FileFormatError, match="expected a dict"):
            updater().set_states(data)
