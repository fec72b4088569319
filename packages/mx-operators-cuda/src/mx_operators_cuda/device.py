# SPDX-License-Identifier: Apache-2.0
"""Device `gpu` and its memory as services, and the refusals that say what a machine lacks."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mx_core.context import gpu
from mx_core.errors import ArgumentError, MXNetError
from mx_operators_cuda.driver import driver
from mx_operators_cuda.libraries import absent

if TYPE_CHECKING:
    from mx_core.context import Context

CURE = "pip install 'nvidia-cuda-nvrtc>=13,<14' 'nvidia-cublas>=13,<14'"
#: what chooses the pool; MXNet's own name comes second
VARIABLES = ("MX_GPU_MEM_POOL_TYPE", "MXNET_GPU_MEM_POOL_TYPE")
RESERVE = "MXNET_GPU_MEM_POOL_RESERVE"
_POOLS = {"pooled": "pooled", "round": "pooled", "bestfit": "best_fit", "unpooled": "naive"}
#: MXNet's Naive pool keeps what is freed, the one of mx-storage does not
_NAIVE = {"MX_GPU_MEM_POOL_TYPE": "naive", "MXNET_GPU_MEM_POOL_TYPE": "pooled"}


def missing(context: Context | None = None) -> str:
    """Why `context` (by default gpu(0)) cannot be used; empty when it can."""
    context = context or gpu()
    found = driver()
    if found.problem:
        return f"{context} cannot be used: {found.problem}; `mx doctor` shows what is found"
    if context.device_id >= found.gpus:
        return f"{context} cannot be used: this machine has gpu(0) to gpu({found.gpus - 1})"
    return ""


def require(context: Context | None = None) -> None:
    """Passes when `context` can be used.

    Raises
    ------
    MXNetError  naming the context and what is missing
    """
    problem = missing(context)
    if problem:
        raise MXNetError(problem)


def make_storage() -> Any:
    """The service `storage("gpu")`: a pool per GPU."""
    from mx_operators_cuda import _native

    require()
    return _native.StorageManager("CUDA", device="gpu", pool=pool_type(), reserve=reserve())


def make_pinned() -> Any:
    """The service `storage("cpu_pinned")`: host memory that GPUs reach without a detour."""
    from mx_operators_cuda import _native

    require()
    return _native.StorageManager("CUDA pinned", device="cpu_pinned", pool=pool_type())


def pool_type() -> str:
    """`"pooled"`, `"best_fit"` or `"naive"`, as the environment says; pooled by default.

    Raises
    ------
    ArgumentError  a variable holds another name
    """
    for variable in VARIABLES:
        text = os.environ.get(variable, "").strip()
        if text:
            found = (_POOLS | {"naive": _NAIVE[variable]}).get(text.lower())
            if found is None:
                raise ArgumentError(
                    f"[{variable}] expected Pooled, Round, BestFit, Naive or Unpooled, got {text!r}"
                )
            return found
    return "pooled"


def reserve() -> int:
    """Percent of a GPU's memory that pooled blocks leave free, as MXNET_GPU_MEM_POOL_RESERVE says; 5 by default.

    Raises
    ------
    ArgumentError  the variable holds something else than 0 to 100
    """
    text = os.environ.get(RESERVE, "").strip() or "5"
    if not text.isdecimal() or int(text) > 100:
        raise ArgumentError(f"[{RESERVE}] expected a whole number from 0 to 100, got {text!r}")
    return int(text)


def diagnostics() -> dict[str, str]:
    """Lines for `mx doctor`."""
    found = driver()
    version_line = f"for CUDA {found.version}" if found.version else ""
    return {
        "NVIDIA driver": "; ".join(filter(None, (version_line, found.problem))),
        "GPUs": _gpus(found.gpus),
        "NVRTC": _nvrtc_line(),
        "cuBLAS": _blas_line(),
        "cuDNN": _dnn_line(),
        "CuPy": _cupy_version() or "not installed; only GPU kernels written in Python need it",
    }


def _gpus(count: int) -> str:
    if count == 0:
        return "0"
    from mx_operators_cuda import _native

    lines = []
    for i in range(count):
        major, minor = _native.Device.capability(i)
        free, total = _native.Device.memory(i)
        lines.append(f"{_native.Device.model(i)} (sm_{major}{minor}, {free >> 20} of {total >> 20} MiB free)")
    return f"{count}: " + ", ".join(lines)


def _nvrtc_line() -> str:
    from mx_operators_cuda import nvrtc

    try:
        return ".".join(map(str, nvrtc.version()))
    except MXNetError as error:
        return absent("MX_NVRTC", CURE, error)


def _blas_line() -> str:
    from mx_operators_cuda import blas

    try:
        path = blas.load()
    except MXNetError as error:
        return absent("MX_CUBLAS", CURE, error)
    return f"{path}; {'with' if blas.has_epilogues() else 'without'} cuBLASLt"


def _dnn_line() -> str:
    from mx_operators_cuda import cudnn

    return cudnn.line()


def _cupy_version() -> str:
    if find_spec("cupy") is None:
        return ""
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "installed"
