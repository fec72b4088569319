# SPDX-License-Identifier: Apache-2.0
"""Hook implementations: the operator `Custom`, its kernels, and modules of operator functions."""

from __future__ import annotations

from typing import Any

from mx_core import hookimpl


@hookimpl
def mx_register_operators(registry: Any) -> None:
    """`Custom`; its backward operator comes along."""
    from mx_ndarray.custom.operator import Custom

    registry.add(Custom)


@hookimpl
def mx_register_kernels(registry: Any) -> None:
    """Python runs them, on arrays of the device."""
    for name, make in (("Custom", "forward_kernel"), ("_backward_Custom", "backward_kernel")):
        for device in ("cpu", "gpu"):
            registry.add(name, device, "python", f"mx_ndarray.custom.operator:{make}", priority=10)


@hookimpl
def mx_stub_modules() -> dict[str, str]:
    """`mx.nd` and what is in it."""
    return {"mx_ndarray.nd": "mx_ndarray.ndarray:NDArray"}
