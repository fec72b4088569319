# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks: cells, which compute a step, and layers, which compute whole sequences."""

from mx_gluon.rnn.basic import GRUCell, LSTMCell, RNNCell
from mx_gluon.rnn.bidirectional import BidirectionalCell
from mx_gluon.rnn.cell import HybridRecurrentCell, RecurrentCell
from mx_gluon.rnn.chains import HybridSequentialRNNCell, SequentialRNNCell
from mx_gluon.rnn.layer import GRU, LSTM, RNN
from mx_gluon.rnn.modifiers import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell

__all__ = [
    "GRU", "LSTM", "RNN", "BidirectionalCell", "DropoutCell", "GRUCell", "HybridRecurrentCell",
    "HybridSequentialRNNCell", "LSTMCell", "ModifierCell", "RNNCell", "RecurrentCell", "ResidualCell",
    "SequentialRNNCell", "ZoneoutCell",
]  # fmt: skip
