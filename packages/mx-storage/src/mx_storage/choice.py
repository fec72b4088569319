# SPDX-License-Identifier: Apache-2.0
"""The storage manager that environment variables choose.

MX_CPU_MEM_POOL_TYPE has this package's names. MXNET_CPU_MEM_POOL_TYPE has MXNet's, where `Naive` is a
pool of page-rounded sizes and `Unpooled` is none.
"""

from __future__ import annotations

import os
from typing import TypedDict

from mx_core.errors import SettingError

#: variable -> accepted name -> manager; the first that is set counts
_CHOICES = {
    "MX_CPU_MEM_POOL_TYPE": {
        "Pooled": "Pooled",
        "Round": "Round",
        "Pages": "Pages",
        "BestFit": "BestFit",
        "Naive": "Naive",
        "Unpooled": "Naive",
    },
    "MXNET_CPU_MEM_POOL_TYPE": {"Naive": "Pages", "Round": "Round", "Unpooled": "Naive"},
}

#: the native part takes 32 bits
MOST = 2**31 - 1

#: variables of the pools of buckets
SIZES = (
    "MXNET_CPU_MEM_POOL_PAGE_SIZE",
    "MXNET_CPU_MEM_LARGE_ALLOC_ROUND_SIZE",
    "MXNET_CPU_MEM_POOL_ROUND_LINEAR_CUTOFF",
)

#: what `mx doctor` says of each variable
VARIABLES = {
    "MX_CPU_MEM_POOL_TYPE": "pool of main memory: Pooled (default), Round, Pages, BestFit or Naive (none)",
    "MXNET_CPU_MEM_POOL_TYPE": "the same in MXNet's words: Naive (pages), Round or Unpooled",
    "MXNET_CPU_TEMP_COPY": "temp spaces without a name that operations take in turn",
    "MXNET_CPU_MEM_POOL_PAGE_SIZE": "least size of a bucket of Round and Pages, bytes",
    "MXNET_CPU_MEM_LARGE_ALLOC_ROUND_SIZE": "Pages: larger sizes are multiples of this, bytes",
    "MXNET_CPU_MEM_POOL_ROUND_LINEAR_CUTOFF": "Round: sizes beyond 2 to this are multiples of that",
}


def chosen() -> str:
    """`"Pooled"`, `"Round"`, `"Pages"`, `"BestFit"` or `"Naive"`; Pooled when nothing is set.

    Raises
    ------
    SettingError
        A variable holds another name.
    """
    for variable, names in _CHOICES.items():
        text = os.environ.get(variable, "").strip()
        if not text:
            continue
        for name, manager in names.items():
            if text.lower() == name.lower():
                return manager
        raise SettingError(f"[{variable}] expected one of {', '.join(names)}, got {text!r}")
    return "Pooled"


class Sizes(TypedDict):
    """Arguments of `StorageManager` for pools of buckets."""

    page_size: int
    large_size: int
    linear_cutoff: int


def sizes() -> Sizes:
    """What the environment says of buckets, or MXNet's defaults.

    Raises
    ------
    SettingError
        A variable holds no whole number.
    """
    page, large, cutoff = SIZES
    return {
        "page_size": integer(page, 4096),
        "large_size": integer(large, 2 << 20),
        "linear_cutoff": integer(cutoff, 24),
    }


def integer(variable: str, default: int) -> int:
    """The whole number in an environment variable.

    Raises
    ------
    SettingError
        It holds something else, or a number above `MOST`.
    """
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    if not text.isdecimal() or len(text) > len(str(MOST)) or int(text) > MOST:
        raise SettingError(f"[{variable}] expected a whole number up to {MOST}, got {text[:40]!r}")
    return int(text)
