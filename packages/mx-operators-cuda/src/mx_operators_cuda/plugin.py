# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-operators-cuda; nothing of CUDA is loaded before it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mx_core import PluginInfo, hookimpl

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

MX_PLUGIN = PluginInfo(summary="The gpu device and CUDA kernels, through CuPy and NVRTC")


@hookimpl
def mx_register_devices(registry: Any) -> None:
    """NVIDIA GPUs."""
    registry.add("gpu", 2, "mx_operators_cuda.driver:count", "mx_operators_cuda.device:make_device")


@hookimpl
def mx_register_storage_managers(registry: Any) -> None:
    """Memory of NVIDIA GPUs."""
    registry.add("gpu", "CUDA", "mx_operators_cuda.device:make_storage")


@hookimpl
def mx_register_kernel_generators(registry: Any) -> None:
    """Kernels from elementwise expressions."""
    registry.add("gpu", "nvrtc", "mx_operators_cuda.elementwise:generate")


@hookimpl
def mx_select_kernel(call: KernelCall) -> None:
    """Explains what a gpu context lacks, in place of "no kernel" or a crash on device memory."""
    if call.context.device_type == "gpu":
        from mx_operators_cuda.device import refuse_arrays

        refuse_arrays(call.context)


@hookimpl
def mx_diagnostics() -> dict[str, str]:
    """Driver, CuPy and NVRTC of this machine."""
    from mx_operators_cuda.device import diagnostics

    return diagnostics()
