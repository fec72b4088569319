# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import Any

_Tensors = Sequence[tuple[Sequence[int], int]]

def instruction_set() -> str:
    """Name of the loops this CPU runs: baseline, avx2 or avx512."""

def expression_plan(serialized: bytes, inputs: _Tensors, outputs: _Tensors) -> Any:
    """A plan for an elementwise expression in its serialised form."""
