# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib.amp`: automatic mixed precision, as `mx_symbol.amp` has it."""

from mx_symbol.amp import (
    convert_model,
    convert_symbol,
    init,
    list_conditional_fp32_ops,
    list_lp16_ops,
    list_widest_type_cast,
)

__all__ = [
    "convert_model", "convert_symbol", "init", "list_conditional_fp32_ops", "list_lp16_ops", "list_widest_type_cast",
]  # fmt: skip
