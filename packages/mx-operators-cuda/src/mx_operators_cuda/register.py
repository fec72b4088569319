# SPDX-License-Identifier: Apache-2.0
"""Which operators have kernels of their own on a GPU; every elementwise one has a generated one."""

from __future__ import annotations

from typing import Any

#: optimizer updates, whose kernels are made of their declarations
UPDATES = (
    "sgd_update", "sgd_mom_update", "nag_mom_update", "signsgd_update", "signum_update", "adam_update",
    "rmsprop_update", "rmspropalex_update", "ftrl_update", "ftml_update",
)  # fmt: skip
#: operator, "module:function" of this package
KERNELS: tuple[tuple[str, str], ...] = (
    *((name, "movement:copy") for name in (
        "Reshape", "_backward_reshape", "Flatten", "expand_dims", "squeeze", "reshape_like")),
    *((name, "movement:broadcast") for name in ("broadcast_to", "broadcast_axis", "broadcast_like")),
    ("where", "movement:where"),
    ("_zeros", "movement:zeros"),
    ("_ones", "movement:ones"),
    ("_full", "movement:full"),
    *((name, "reduce:reduce") for name in ("sum", "mean", "prod", "nansum", "nanprod", "max", "min")),
    ("norm", "reduce:norm"),
    ("_unbroadcast", "reduce:unbroadcast"),
    ("_backward_sum", "reduce:backward_sum"),
    ("_backward_mean", "reduce:backward_mean"),
    *((name, "moves:take") for name in (
        "transpose", "SwapAxis", "reverse", "slice", "slice_axis", "slice_like", "SliceChannel", "_split_v2",
        "_backward_Concat")),
    *((f"_backward_{name}", "moves:put") for name in ("slice", "slice_axis", "slice_like")),
    ("Concat", "moves:concat"),
    ("stack", "moves:stack"),
    ("_slice_assign", "moves:assign"),
    ("_slice_assign_scalar", "moves:assign"),
    *((f"{kind}{name}", "rows:softmax") for kind in ("", "_backward_")
      for name in ("softmax", "softmin", "log_softmax")),
    ("SoftmaxActivation", "rows:softmax_activation"),
    ("_backward_SoftmaxActivation", "rows:softmax_activation"),
    ("SoftmaxOutput", "rows:softmax_output"),
    ("_backward_SoftmaxOutput", "rows:softmax_output_backward"),
    *((name, "rows:arg") for name in ("argmax", "argmin", "argmax_channel")),
    ("pick", "rows:pick"),
    ("_backward_pick", "rows:backward_pick"),
    *((name, "optimizer:update") for name in UPDATES),
    *((f"_random_{name}", f"random:{name}") for name in ("uniform", "normal", "exponential")),
    *((f"_random_{name}_like", f"random:{name}") for name in ("uniform", "normal", "exponential")),
    ("_random_randint", "random:integers"),
    ("Dropout", "random:dropout"),
    ("dot", "product:dot"),
    ("_backward_dot", "product:backward_dot"),
    ("batch_dot", "product:batch_dot"),
    ("FullyConnected", "product:fully_connected"),
    ("_backward_FullyConnected", "product:fully_connected_backward"),
)  # fmt: skip


def register_kernels(registry: Any) -> None:
    """Adds the kernels of single operators."""
    for op, make in KERNELS:
        variant = "cublas" if make.startswith("product:") else "nvrtc"
        registry.add(op, "gpu", variant, f"{__package__}.{make}")
