# SPDX-License-Identifier: Apache-2.0
"""`mx.rnn`: recurrent cells for graphs, their checkpoints, and batches of sentences by length."""

from mx_train.rnn.basic import GRUCell as GRUCell
from mx_train.rnn.basic import LSTMCell as LSTMCell
from mx_train.rnn.basic import RNNCell as RNNCell
from mx_train.rnn.cell import BaseRNNCell as BaseRNNCell
from mx_train.rnn.cell import RNNParams as RNNParams
from mx_train.rnn.checkpoint import do_rnn_checkpoint as do_rnn_checkpoint
from mx_train.rnn.checkpoint import load_rnn_checkpoint as load_rnn_checkpoint
from mx_train.rnn.checkpoint import rnn_unroll as rnn_unroll
from mx_train.rnn.checkpoint import save_rnn_checkpoint as save_rnn_checkpoint
from mx_train.rnn.combined import BidirectionalCell as BidirectionalCell
from mx_train.rnn.combined import SequentialRNNCell as SequentialRNNCell
from mx_train.rnn.convolutional import BaseConvRNNCell as BaseConvRNNCell
from mx_train.rnn.convolutional import ConvGRUCell as ConvGRUCell
from mx_train.rnn.convolutional import ConvLSTMCell as ConvLSTMCell
from mx_train.rnn.convolutional import ConvRNNCell as ConvRNNCell
from mx_train.rnn.dropout import DropoutCell as DropoutCell
from mx_train.rnn.fused import FusedRNNCell as FusedRNNCell
from mx_train.rnn.modifiers import ModifierCell as ModifierCell
from mx_train.rnn.modifiers import ResidualCell as ResidualCell
from mx_train.rnn.modifiers import ZoneoutCell as ZoneoutCell
from mx_train.rnn.sentences import BucketSentenceIter as BucketSentenceIter
from mx_train.rnn.sentences import encode_sentences as encode_sentences
