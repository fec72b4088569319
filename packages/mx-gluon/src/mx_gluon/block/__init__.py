# SPDX-License-Identifier: Apache-2.0
"""Blocks: parts of networks that hold parameters and other blocks, run call by call or as one graph."""

from mx_gluon.block.block import Block as Block
from mx_gluon.block.hooks import HookHandle as HookHandle
from mx_gluon.block.hybrid_block import HybridBlock as HybridBlock
from mx_gluon.block.scope import BlockScope as _BlockScope  # noqa: F401  MXNet's name of it
from mx_gluon.block.symbol_block import SymbolBlock as SymbolBlock
