# SPDX-License-Identifier: Apache-2.0
from mx_core.kernels import KernelCall

def moving_average(call: KernelCall) -> object:
    """A capsule `mx.kernel.v1`; its C `prepare` looks at the signature."""

def _backward_moving_average(call: KernelCall) -> object:
    """The same for the gradient."""
