# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-operators-cuda; nothing of CUDA is loaded before it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mx_core import PluginInfo, hookimpl

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

MX_PLUGIN = PluginInfo(
    summary="The gpu device, its memory and CUDA kernels, generated and compiled by NVRTC",
    variables={
        "MX_CUDA_DRIVER": "path of the CUDA driver library, by default libcuda.so.1",
        "MX_CUBLAS": "path of cuBLAS, by default that of the nvidia-cublas wheel",
        "MX_CUBLASLT": "path of cuBLASLt, by default that of the nvidia-cublas wheel; off: not used",
        "MX_CUDNN": "path of cuDNN 9, by default that of the nvidia-cudnn wheel; off: not used",
        "MX_NCCL": "path of NCCL, by default that of the nvidia-nccl wheel",
        "MX_NVRTC": "path of NVRTC, by default that of the nvidia-cuda-nvrtc wheel",
        "MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION": "1: cuDNN may round float32 to TensorFloat-32; 0 by default",
        "MX_GPU_MEM_POOL_TYPE": "pool of GPU memory: Pooled, BestFit or Naive",
        "MXNET_GPU_MEM_POOL_RESERVE": "percent of a GPU's memory that pooled blocks leave free, 5 by default",
        "MXNET_GPU_MEM_POOL_TYPE": "the same with MXNet's names; MX_GPU_MEM_POOL_TYPE comes first",
    },
)


@hookimpl
def mx_register_devices(registry: Any) -> None:
    """NVIDIA GPUs."""
    registry.add("gpu", 2, "mx_operators_cuda.driver:count", "mx_operators_cuda.lending:make_device")


@hookimpl
def mx_register_storage_managers(registry: Any) -> None:
    """Memory of NVIDIA GPUs, and host memory page-locked for them where a driver seems to be."""
    from mx_operators_cuda.driver import installed

    registry.add("gpu", "CUDA", "mx_operators_cuda.device:make_storage")
    if installed():
        registry.add("cpu_pinned", "CUDA pinned", "mx_operators_cuda.device:make_pinned")


@hookimpl
def mx_register_kernel_generators(registry: Any) -> None:
    """Kernels from elementwise expressions."""
    registry.add("gpu", "nvrtc", "mx_operators_cuda.elementwise:generate")


@hookimpl
def mx_register_kernels(registry: Any) -> None:
    """Kernels of reductions, products, broadcasts and constants."""
    from mx_operators_cuda.register import register_kernels

    register_kernels(registry)


@hookimpl
def mx_register_kvstores(registry: Any) -> None:
    """A store that sums over GPUs by NCCL."""
    registry.add("nccl", "mx_operators_cuda.nccl:make_store")


@hookimpl
def mx_select_kernel(call: KernelCall, candidates: Sequence[Any]) -> None:
    """Explains what a gpu context lacks, or that this package has no kernel, in place of "no kernel"."""
    if call.context.device_type != "gpu":
        return
    from mx_core.errors import NoKernelError
    from mx_operators_cuda.device import require

    require(call.context)
    if not candidates:
        types = ", ".join(map(str, call.inputs))
        raise NoKernelError(
            f"no kernel for {call.op.name!r} on {call.context} with inputs ({types}): neither "
            "mx-operators-cuda nor another plug-in has one for GPUs"
        )


@hookimpl
def mx_diagnostics() -> dict[str, str]:
    """Driver, GPUs and NVRTC of this machine, and which kernels a GPU has confirmed."""
    from mx_operators_cuda.device import diagnostics
    from mx_operators_cuda.ledger import summary

    return {**diagnostics(), "Confirmed": summary()}
