# SPDX-License-Identifier: Apache-2.0
"""cuDNN: found and loaded when the first operator that it serves is prepared; without it our own kernels serve."""

from __future__ import annotations

import ctypes
import warnings
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

from mx_core.errors import MXNetError, NoKernelError
from mx_operators_cuda.libraries import absent, places
from mx_operators_cuda.libraries import load as load_first

#: what MX_CUDNN says when cuDNN is not to be used
OFF = "off"
#: sizes of one layer that cuDNN is asked for where it compiles each, which takes about a second, and keeps it
SIZES = 8
CURE = "pip install 'nvidia-cudnn-cu13>=9,<10'"
_PATTERNS = ("cudnn/lib/libcudnn.so.*",)
_SONAMES = ("libcudnn.so.9",)
#: what a wheel's cuDNN opens by name, which the system does not find
_BESIDE = (
    "cu13/lib/libcublasLt.so.*", "cublas/lib/libcublasLt.so.*",
    "cu13/lib/libcublas.so.*", "cublas/lib/libcublas.so.*",
    "cu13/lib/libnvrtc-builtins.so.*", "cuda_nvrtc/lib/libnvrtc-builtins.so.*",
    "cu13/lib/libnvrtc.so.*", "cuda_nvrtc/lib/libnvrtc.so.*",
)  # fmt: skip


_asked: dict[tuple[Signature, int], set[Signature]] = {}  # sizes by layer and GPU


class Signature(Protocol):
    """All that a plan depends on but the GPU; can be hashed."""

    def __hash__(self) -> int: ...

    @property
    def called(self) -> str:
        """What it computes, for messages: "a convolution"."""

    def plan(self, gpu: int) -> Any:
        """A plan for a GPU.

        Raises
        ------
        NoKernelError  cuDNN has none
        MXNetError  it failed
        """


def planned(signature: Signature, gpu: int) -> Any:
    """The plan, made once, or None where cuDNN has none.

    A warning tells where it failed, as without memory; it is asked again the next time.
    """
    try:
        return _kept(signature, gpu)
    except MXNetError as error:
        warnings.warn(
            f"our own kernels serve {signature.called}, because cuDNN failed: {error}", stacklevel=2
        )
        return None


@cache  # a plan that may still be run is never freed
def _kept(signature: Signature, gpu: int) -> Any:
    """The plan, or None where cuDNN has none: neither changes."""
    try:
        return signature.plan(gpu)
    except NoKernelError:
        return None


def planned_size(signature: Signature, layer: Signature, gpu: int) -> Any:
    """The plan of what cuDNN compiles for each size; None also for a layer of more than `SIZES` sizes.

    Parameters
    ----------
    layer : Signature
        The same without its size.
    """
    asked = _asked.setdefault((layer, gpu), set())
    if signature not in asked and len(asked) >= SIZES:
        return None
    asked.add(signature)
    return planned(signature, gpu)


@lru_cache(maxsize=1)
def load() -> tuple[str, str]:
    """Loads it: the file that MX_CUDNN names, else from a wheel, else from the system.

    Returns
    -------
    (str, str)
        Where it was found, and its version: `9.19.0`.

    Raises
    ------
    MXNetError  it is not installed, not of version 9, or MX_CUDNN is "off"
    """
    from mx_operators_cuda import _native

    def opened(path: str) -> str:
        if path == OFF:
            raise MXNetError("cuDNN is not used: MX_CUDNN is off")
        _load_beside(Path(path))
        number = _native.load_dnn(path)
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    candidates = places("MX_CUDNN", _PATTERNS, "cudnn", _SONAMES)
    return load_first("cuDNN (NVIDIA's layers of neural networks)", CURE, candidates, opened)


def _load_beside(path: Path) -> None:
    if "/" not in str(path):
        return
    for pattern in _BESIDE:
        for library in sorted(path.parents[2].glob(pattern)) if len(path.parents) > 2 else ():
            if ".alt." not in library.name:
                ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def version() -> tuple[int, ...]:
    """Of what is loaded: (9, 19, 0).

    Raises
    ------
    MXNetError  it cannot be loaded
    """
    return tuple(map(int, load()[1].split(".")))


@cache  # the search asks the system's tools, and would do so for every layer
def installed() -> bool:
    """Whether it can be loaded; the first call tries."""
    try:
        load()
    except MXNetError:
        return False
    return True


def line() -> str:
    """For `mx doctor`."""
    try:
        path, version = load()
        return f"{version}, {path}"
    except MXNetError as error:
        if "MX_CUDNN is off" in str(error):
            return "off (MX_CUDNN); our own kernels serve"
        return f"our own kernels serve; {absent('MX_CUDNN', CURE, error)}"
