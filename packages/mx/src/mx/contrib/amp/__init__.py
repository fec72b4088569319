# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib.amp`: automatic mixed precision, as `mx_symbol.amp` has it."""

import sys as _sys

from mx.absent import explain as _explain
from mx.files import files_of as _files_of
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

_explain(_sys.modules[__name__], [__name__])
for _file in _files_of([__name__]):
    _sys.modules[f"{__name__}.{_file}"] = _sys.modules[__name__]
