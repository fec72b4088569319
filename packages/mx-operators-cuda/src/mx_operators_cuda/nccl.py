# SPDX-License-Identifier: Apache-2.0
"""NCCL, NVIDIA's sums over GPUs: the store `nccl`, which sums gradients and copies weights by it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from mx_core import plugins, services
from mx_core.errors import MXNetError
from mx_operators_cuda import device
from mx_operators_cuda.libraries import load as load_first
from mx_operators_cuda.libraries import places

_PATTERNS = ("nccl/lib/libnccl.so.*",)
_SONAMES = ("libnccl.so.2",)
_CURE = "pip install 'nvidia-nccl-cu13>=2.27'"
#: types that NCCL adds and copies
_TYPES = frozenset({"int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"})


@lru_cache(maxsize=1)
def load() -> str:
    """Loads NCCL: the file that MX_NCCL names, else from a wheel, else from the system.

    Returns
    -------
    str
        Where it was found.

    Raises
    ------
    MXNetError  it is not installed
    """
    from mx_operators_cuda import _native

    candidates = places("MX_NCCL", _PATTERNS, "nccl", _SONAMES)
    return load_first("NCCL (sums over NVIDIA GPUs)", _CURE, candidates, _native.load_nccl)[0]


class Collectives:
    """Sums and copies over the GPUs of this process, pushed to the engine. Threads: any."""

    def __init__(self, invoke: Any) -> None:
        self._invoke = invoke

    def reduce(self, arrays: Sequence[Any], target: Any, priority: int) -> bool:
        """Pushes the sum of arrays to `target`; False if they are none that NCCL sums."""
        return self._push(True, arrays, target, priority)

    def broadcast(self, source: Any, targets: Sequence[Any], priority: int) -> bool:
        """Pushes copies of `source` to arrays; False if they are none that NCCL copies."""
        return self._push(False, targets, source, priority)

    def _push(self, reduces: bool, arrays: Sequence[Any], root: Any, priority: int) -> bool:
        by_gpu = {array.context.device_id: array for array in arrays if array.context.device_type == "gpu"}
        here = root.context
        if len(by_gpu) != len(arrays) or here.device_type != "gpu" or here.device_id not in by_gpu:
            return False
        if (
            len(by_gpu) < 2
            or any(array.dtype is not root.dtype for array in arrays)
            or root.dtype.__name__ not in _TYPES
        ):
            return False
        from mx_operators_cuda import _native

        _native.collective(
            services.engine().capsule, self._invoke, reduces=reduces,
            arrays=[by_gpu[number].handle for number in sorted(by_gpu)], root=root.handle, priority=priority,
        )  # fmt: skip
        return True


def make_store(name: str) -> Any:
    """A `device` store whose sums and copies are NCCL's where arrays lie on different GPUs.

    Raises
    ------
    MXNetError  there is no GPU, no NCCL, or no store to derive from
    """
    device.require()
    load()
    registry = plugins.registry("kvstores")
    if "device" not in registry:
        raise MXNetError(f"[KVStore {name!r}] needs mx-kvstore, which is not installed")
    store = registry.get("device").value.make("device")
    store.use_collectives(name, Collectives)
    return store
