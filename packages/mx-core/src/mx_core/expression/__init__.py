# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions as data.

`trace` writes a Python function down as an `Expression`; generators of the device packages turn
that into native kernels, `evaluate` computes it with NumPy, `differentiate` gives its gradient.
The functions (`exp`, `where`, …) work on traced values.
"""

from mx_core.expression.derivative import differentiate as differentiate
from mx_core.expression.derivative import replay as replay
from mx_core.expression.evaluate import convert as convert
from mx_core.expression.evaluate import evaluate as evaluate
from mx_core.expression.functions import *  # noqa: F403
from mx_core.expression.ir import Expression as Expression
from mx_core.expression.ir import Instruction as Instruction
from mx_core.expression.ir import compute_dtype as compute_dtype
from mx_core.expression.opcodes import Opcode as Opcode
from mx_core.expression.opcodes import arity as arity
from mx_core.expression.trace import Builder as Builder
from mx_core.expression.trace import Traced as Traced
from mx_core.expression.trace import trace as trace
