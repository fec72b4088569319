# SPDX-License-Identifier: Apache-2.0
"""Graph passes, one a file, and the pipeline that makes a bound graph of a symbol's by them."""

from __future__ import annotations

from mx_symbol.passes.pipeline import (
    OPTIONAL,
    VARIABLE,
    Observer,
    Passes,
    always,
    is_always,
    ordered,
    run_stage,
)

__all__ = ["OPTIONAL", "VARIABLE", "Observer", "Passes", "always", "is_always", "ordered", "run_stage"]
