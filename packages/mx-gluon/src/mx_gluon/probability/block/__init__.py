# SPDX-License-Identifier: Apache-2.0
"""Blocks that add losses of their own while they compute."""

from mx_gluon.probability.block.stochastic_block import StochasticBlock as StochasticBlock
from mx_gluon.probability.block.stochastic_block import StochasticSequential as StochasticSequential
