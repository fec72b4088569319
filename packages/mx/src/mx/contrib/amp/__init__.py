# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib.amp`: automatic mixed precision of graphs, and of training with Gluon."""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING

from mx.absent import explain as _explain
from mx.files import files_of as _files_of
from mx_core.imports import lazy as _lazy

if TYPE_CHECKING:
    from mx_gluon.amp import LossScaler as LossScaler
    from mx_gluon.amp import convert_hybrid_block as convert_hybrid_block
    from mx_gluon.amp import init_trainer as init_trainer
    from mx_gluon.amp import scale_loss as scale_loss
    from mx_gluon.amp import unscale as unscale
    from mx_symbol.amp import convert_model as convert_model
    from mx_symbol.amp import convert_symbol as convert_symbol
    from mx_symbol.amp import init as init
    from mx_symbol.amp import list_conditional_fp32_ops as list_conditional_fp32_ops
    from mx_symbol.amp import list_lp16_ops as list_lp16_ops
    from mx_symbol.amp import list_widest_type_cast as list_widest_type_cast

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "mx_symbol.amp": [
            "convert_model", "convert_symbol", "init", "list_conditional_fp32_ops", "list_lp16_ops",
            "list_widest_type_cast",
        ],
        "mx_gluon.amp": ["LossScaler", "convert_hybrid_block", "init_trainer", "scale_loss", "unscale"],
    },
)  # fmt: skip

_explain(_sys.modules[__name__], [__name__])
for _file in _files_of([__name__]):
    _sys.modules[f"{__name__}.{_file}"] = _sys.modules[__name__]
