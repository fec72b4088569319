# SPDX-License-Identifier: Apache-2.0
"""Which storage manager the environment asks for."""

from __future__ import annotations

import os

from mx_core.errors import ArgumentError

#: Environment variable that names the pool; the counterpart of MXNET_GPU_MEM_POOL_TYPE.
VARIABLE = "MX_CPU_MEM_POOL_TYPE"
_TYPES = {"pooled": "Pooled", "round": "Pooled", "bestfit": "BestFit", "naive": "Naive", "unpooled": "Naive"}


def chosen() -> str:
    """`"Pooled"`, `"BestFit"` or `"Naive"`, as the environment says; Pooled by default.

    Raises
    ------
    ArgumentError
        The variable holds another name.
    """
    text = os.environ.get(VARIABLE, "").strip() or "Pooled"
    name = _TYPES.get(text.lower())
    if name is None:
        raise ArgumentError(f"[{VARIABLE}] expected Pooled, Round, BestFit, Naive or Unpooled, got {text!r}")
    return name
