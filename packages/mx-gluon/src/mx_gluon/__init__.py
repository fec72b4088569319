# SPDX-License-Identifier: Apache-2.0
"""Gluon: networks of blocks, their parameters, losses and training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mx_core.imports import lazy

if TYPE_CHECKING:
    from mx_gluon import block as block
    from mx_gluon import contrib as contrib
    from mx_gluon import data as data
    from mx_gluon import loss as loss
    from mx_gluon import model_zoo as model_zoo
    from mx_gluon import nn as nn
    from mx_gluon import parameter as parameter
    from mx_gluon import probability as probability
    from mx_gluon import rnn as rnn
    from mx_gluon import trainer as trainer
    from mx_gluon import utils as utils
    from mx_gluon.block import Block as Block
    from mx_gluon.block import HybridBlock as HybridBlock
    from mx_gluon.block import SymbolBlock as SymbolBlock
    from mx_gluon.errors import DeferredInitializationError as DeferredInitializationError
    from mx_gluon.parameter import Constant as Constant
    from mx_gluon.parameter import Parameter as Parameter
    from mx_gluon.parameter import ParameterDict as ParameterDict
    from mx_gluon.trainer import Trainer as Trainer

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "mx_gluon.block": ["Block", "HybridBlock", "SymbolBlock"],
        "mx_gluon.errors": ["DeferredInitializationError"],
        "mx_gluon.parameter": ["Constant", "Parameter", "ParameterDict"],
        "mx_gluon.trainer": ["Trainer"],
    },
    [
        "block",
        "contrib",
        "data",
        "loss",
        "model_zoo",
        "nn",
        "parameter",
        "probability",
        "rnn",
        "trainer",
        "utils",
    ],
)
