# SPDX-License-Identifier: Apache-2.0
"""`mx.runtime`: which of the features that MXNet may be built with are here."""

from __future__ import annotations

import sys as _sys
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import ClassVar, NamedTuple

from mx.absent import explain as _explain
from mx_core import plugins, services
from mx_core.errors import ArgumentError

__all__ = ["Feature", "Features", "feature_list"]


class Feature(NamedTuple):
    """A feature by MXNet's name, and whether it is here."""

    name: str
    enabled: bool

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


@cache
def _processor() -> frozenset[str]:
    """Instruction sets, as Linux lists them."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            line = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        line = ""
    return frozenset(line.split())


def _has_kernels(variant: str, device: str) -> bool:
    names = plugins.registry("kernels").names()
    return any(name.endswith(f"/{device}/{variant}") for name in names)


def _gpu() -> bool:
    return services.device_count("gpu") > 0


def _cudnn() -> bool:
    """Whether a GPU is there, and the library that its kernels open."""
    if not (_gpu() and _has_kernels("cudnn", "gpu")):
        return False
    from mx_operators_cuda.cudnn import installed

    return installed()


def _never() -> bool:
    return False


def _instructions(flag: str) -> Callable[[], bool]:
    return lambda: flag in _processor()


#: name of MXNet -> whether it is here: for instruction sets whether the processor has them, which kernels choose by
_ASKED: dict[str, Callable[[], bool]] = {
    "CUDA": _gpu,
    "CUDNN": _cudnn,
    "NCCL": lambda: _gpu() and "nccl" in plugins.registry("kvstores").names(),
    "CUDA_RTC": lambda: _gpu() and _has_kernels("nvrtc", "gpu"),
    "TENSORRT": _never,
    "CPU_SSE": _instructions("sse"),
    "CPU_SSE2": _instructions("sse2"),
    "CPU_SSE3": _instructions("pni"),
    "CPU_SSE4_1": _instructions("sse4_1"),
    "CPU_SSE4_2": _instructions("sse4_2"),
    "CPU_SSE4A": _instructions("sse4a"),
    "CPU_AVX": _instructions("avx"),
    "CPU_AVX2": _instructions("avx2"),
    "OPENMP": lambda: _has_kernels("onednn", "cpu"),
    "SSE": _never,
    "F16C": _instructions("f16c"),
    "JEMALLOC": _never,
    "BLAS_OPEN": _never,
    "BLAS_ATLAS": _never,
    "BLAS_MKL": _never,
    "BLAS_APPLE": _never,
    "LAPACK": lambda: "_linalg_potrf" in plugins.registry("operators").names(),
    "MKLDNN": lambda: _has_kernels("onednn", "cpu"),
    "OPENCV": lambda: "jpeg" in plugins.registry("image_codecs").names(),
    "CAFFE": _never,
    "PROFILER": _never,
    "DIST_KVSTORE": lambda: any(
        name.partition("@")[0] == "dist_sync" for name in plugins.registry("kvstores").names()
    ),
    "CXX14": _never,
    "INT64_TENSOR_SIZE": _never,
    "SIGNAL_HANDLER": _never,
    "DEBUG": _never,
    "TVM_OP": _never,
}


def feature_list() -> list[Feature]:
    """MXNet's features, and which of them are here.

    `MKLDNN` is oneDNN. `OPENCV` stands for the functions on images, which need no OpenCV here, and `CUDA` for a GPU
    that can be used.

    Returns
    -------
    list of Feature
    """
    return [Feature(name, asked()) for name, asked in _ASKED.items()]


class Features(OrderedDict[str, Feature]):
    """The features by name; one object per process. Threads: any."""

    instance: ClassVar[Features | None] = None

    def __new__(cls) -> Features:
        if cls.instance is None:
            made = super().__new__(cls)
            OrderedDict.__init__(made, [(feature.name, feature) for feature in feature_list()])
            cls.instance = made
        return cls.instance

    def __init__(self) -> None:
        """Changes nothing: the object is made once."""

    def __repr__(self) -> str:
        return repr(list(self.values()))

    def is_enabled(self, feature_name: str) -> bool:
        """Whether a feature is here.

        Parameters
        ----------
        feature_name : str
            In any case.

        Raises
        ------
        ArgumentError  MXNet has no such feature
        """
        name = feature_name.upper()
        if name not in self:
            raise ArgumentError(f"[Features] unknown feature {name!r}; known: {', '.join(self)}")
        return self[name].enabled


_explain(_sys.modules[__name__], [__name__])
