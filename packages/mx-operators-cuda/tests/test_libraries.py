# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's libraries that are not there: looked for once, and told by `mx doctor`."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from mx_core.errors import MXNetError, NoKernelError, OutOfMemoryError
from mx_operators_cuda import blas, cudnn, libraries


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


def test_what_doctor_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason, where a file was named or one that is there was refused."""
    missing = MXNetError("cuDNN was not found. Tried libcudnn.so.9: cannot open shared object file")
    old = MXNetError("cuDNN was not found. Tried libcudnn.so: [gpu] cuDNN: it has version 8907, 9 is needed")
    monkeypatch.delenv("MX_CUDNN", raising=False)
    assert libraries.absent("MX_CUDNN", "pip install it", missing) == "not installed; pip install it"
    assert libraries.absent("MX_CUDNN", "pip install it", old) == str(old)
    monkeypatch.setenv("MX_CUDNN", "/nowhere/libcudnn.so.9")
    assert libraries.absent("MX_CUDNN", "pip install it", missing) == str(missing)


class _Signature:
    """Of a plan that fails in some way, then is made."""

    called = "a convolution"

    def __init__(self, *failures: MXNetError) -> None:
        self.failures = list(failures)

    def plan(self, gpu: int | None) -> Any:
        if self.failures:
            raise self.failures.pop(0)
        return self


def test_what_passes_is_asked_again() -> None:
    """Memory that is missing now, but not a graph that cuDNN does not have."""
    signature = _Signature(OutOfMemoryError("none left"), MXNetError("it failed"))
    for told in ("none left", "it failed"):
        with pytest.warns(UserWarning, match=f"our own kernels serve a convolution, .* {told}"):
            assert cudnn.planned(signature, 0) is None
    assert cudnn.planned(signature, 0) is signature
    assert cudnn.planned(signature, 0) is signature
    unsupported = _Signature(NoKernelError("no engine serves"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [cudnn.planned(unsupported, 0), cudnn.planned(unsupported, 0)] == [None, None]
