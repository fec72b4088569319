# SPDX-License-Identifier: Apache-2.0
"""Device `gpu`: what it needs, what is missing, and the refusals that say so.

Arrays of mx on a GPU need the device's C tables (streams, tokens, copies, memory). This version
has none: it generates, compiles and, on CuPy arrays, launches kernels. Every way to a gpu array ends
here, in an error that names the first thing missing.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

from mx_core.context import gpu
from mx_core.errors import MXNetError
from mx_operators_cuda.driver import driver

if TYPE_CHECKING:
    from mx_core.context import Context

CURE = "pip install 'mx-operators-cuda[cuda]'"


def missing(context: Context | None = None) -> str:
    """Why kernels cannot be launched on `context` (by default gpu(0)); empty when they can."""
    context = context or gpu()
    found = driver()
    reasons = [found.problem] if found.problem else []
    if found.gpus and context.device_id >= found.gpus:
        reasons.append(f"this machine has gpu(0) to gpu({found.gpus - 1})")
    if find_spec("cupy") is None:
        reasons.append("CuPy is not installed")
    if not reasons:
        return ""
    where = "" if found.gpus else "on a machine with an NVIDIA GPU: "
    cure = f"; {where}{CURE}" if find_spec("cupy") is None else "; `mx doctor` shows what is found"
    return f"{context} cannot be used: {' and '.join(reasons)}{cure}"


def require(context: Context | None = None) -> None:
    """Passes when kernels can be launched on `context`.

    Raises
    ------
    MXNetError  naming the context, what is missing and the cure
    """
    problem = missing(context)
    if problem:
        raise MXNetError(problem)


def refuse_arrays(context: Context | None = None) -> NoReturn:
    """Says why there is no array on `context`.

    Raises
    ------
    MXNetError  always
    """
    require(context)
    raise MXNetError(
        f"{context or gpu()} holds no arrays: mx-operators-cuda {_own_version()} has no device table "
        "(mx.device.v1); its elementwise kernels run on CuPy arrays, see mx_operators_cuda.generate"
    )


def make_device() -> Any:
    """The service `device("gpu")`, which this version does not have: see `refuse_arrays`."""
    refuse_arrays()


def make_storage() -> Any:
    """The service `storage("gpu")`, which this version does not have: see `refuse_arrays`."""
    refuse_arrays()


def diagnostics() -> dict[str, str]:
    """Lines for `mx doctor`."""
    found = driver()
    return {
        "NVIDIA driver": "; ".join(
            filter(None, (found.version and f"for CUDA {found.version}", found.problem))
        ),
        "GPUs": str(found.gpus),
        "CuPy": _cupy_version() or f"not installed; {CURE}",
        "NVRTC": _nvrtc_line(),
        "arrays on gpu": "not in this version; kernels run on CuPy arrays",
    }


def _nvrtc_line() -> str:
    from mx_operators_cuda import nvrtc

    try:
        return ".".join(map(str, nvrtc.version()))
    except MXNetError:
        return f"not installed; {CURE}"


def _cupy_version() -> str:
    if find_spec("cupy") is None:
        return ""
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "installed"


def _own_version() -> str:
    return version("mx-operators-cuda")
