# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's libraries that are not installed are looked for once."""

from __future__ import annotations

from typing import Any

import pytest

from mx_core.errors import MXNetError
from mx_operators_cuda import blas, cudnn


@pytest.mark.parametrize(
    ("module", "load", "there"),
    [(cudnn, cudnn.load, cudnn.installed), (blas, blas.load_light, blas.has_epilogues)],
    ids=["cuDNN", "cuBLASLt"],
)
def test_one_search(module: Any, load: Any, there: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = []

    def nothing(*given: Any) -> None:
        searches.append(given)
        raise MXNetError("not found")

    monkeypatch.setattr(module, "load_first", nothing)
    load.cache_clear()
    there.cache_clear()
    assert [there(), there()] == [False, False] and len(searches) == 1
    there.cache_clear()
