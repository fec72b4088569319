# SPDX-License-Identifier: Apache-2.0
"""Which operators these kernels compute. The native library loads when the first is prepared."""

from __future__ import annotations

from typing import Any

PRIORITY = 20  # a vendor library
WIDENED = 15  # between it and portable native code

#: operator, module:function, module:function that says whether the call is supported
KERNELS = (
    ("Convolution", "convolution:convolution", "signature:floating"),
    ("_fused_Convolution", "fused:layer", "signature:floating"),
    ("_fused_FullyConnected", "fused:layer", "signature:floating"),
    ("_onednn_pack_weight", "fused:pack", "signature:floating"),
    ("_backward_Convolution", "convolution:convolution_backward", "signature:floating"),
    ("Deconvolution", "convolution:deconvolution", "signature:floating"),
    ("_backward_Deconvolution", "convolution:deconvolution_backward", "signature:floating"),
    ("FullyConnected", "dense:fully_connected", "signature:floating"),
    ("_backward_FullyConnected", "dense:fully_connected_backward", "signature:floating"),
    ("dot", "dense:dot", "signature:floating"),
    ("batch_dot", "dense:batch_dot", "signature:floating"),
    ("_backward_dot", "dense:dot_backward", "signature:floating"),
    ("_linalg_gemm", "dense:gemm", "signature:floating"),
    ("_linalg_gemm2", "dense:gemm", "signature:floating"),
    ("Pooling", "pooling:pooling", "pooling:supported"),
    ("_backward_Pooling", "pooling:pooling_backward", "pooling:supported"),
    ("BatchNorm", "norm:batch_norm", "signature:floating"),
    ("_backward_BatchNorm", "norm:batch_norm_backward", "signature:floating"),
    ("_contrib_SyncBatchNorm", "norm:batch_norm", "signature:floating"),
    ("_backward_contrib_SyncBatchNorm", "norm:batch_norm_backward", "signature:floating"),
    ("LayerNorm", "norm:layer_norm", "signature:floating"),
    ("_backward_LayerNorm", "norm:layer_norm_backward", "signature:floating"),
    ("GroupNorm", "norm:group_norm", "signature:floating"),
    ("_backward_GroupNorm", "norm:group_norm_backward", "signature:floating"),
    ("InstanceNorm", "norm:group_norm", "signature:floating"),
    ("_backward_InstanceNorm", "norm:group_norm_backward", "signature:floating"),
    ("LRN", "norm:lrn", "signature:floating"),
    ("_backward_LRN", "norm:lrn_backward", "signature:floating"),
    ("softmax", "softmax:softmax", "softmax:supported"),
    ("_backward_softmax", "softmax:softmax_backward", "softmax:supported"),
    ("softmin", "softmax:softmin", "softmax:supported"),
    ("_backward_softmin", "softmax:softmin_backward", "softmax:supported"),
    ("log_softmax", "softmax:log_softmax", "softmax:supported"),
    ("_backward_log_softmax", "softmax:log_softmax_backward", "softmax:supported"),
    ("SoftmaxActivation", "softmax:softmax_activation", "signature:floating"),
    ("_backward_SoftmaxActivation", "softmax:softmax_activation_backward", "signature:floating"),
    ("SoftmaxOutput", "softmax:softmax_output", "signature:floating"),
    ("_backward_SoftmaxOutput", "softmax:softmax_output_backward", "signature:floating"),
    ("softmax_cross_entropy", "softmax:cross_entropy", "signature:floating"),
    ("_backward_softmax_cross_entropy", "softmax:cross_entropy_backward", "signature:floating"),
    *((f"{kind}_contrib_interleaved_matmul_{pair}_{what}", f"attention:{make}", "signature:floating")
      for pair in ("selfatt", "encdec") for kind, what, make in (
          ("", "qk", "scores"), ("_backward", "qk", "scores_backward"),
          ("", "valatt", "values"), ("_backward", "valatt", "values_backward"))),
    ("RNN", "rnn:rnn", "rnn:supported"),
    ("_backward_RNN", "rnn:rnn_backward", "rnn:supported"),
    ("_fused_attention", "fused_attention:fused_attention", "signature:floating"),
    ("_onednn_RNN", "packed_rnn:packed_rnn", "signature:floating"),
    ("_onednn_pack_RNN", "packed_rnn:pack", "signature:floating"),
)  # fmt: skip


def register_passes(registry: Any) -> None:
    """Adds the graph passes of this folder."""
    registry.add("pack-weights", "inference", f"{__package__}.fused:pack_weights", after=("layers",))
    registry.add(
        "pack-recurrent",
        "inference",
        f"{__package__}.packed_rnn:pack_recurrent",
        after=("layers", "bfloat16"),
    )


def register(registry: Any) -> None:
    """Adds every kernel of this folder, and behind it the same between casts from and to 16-bit types."""
    widened = f"{__package__.rpartition('.')[0]}.widened"
    for op, *names in KERNELS:
        make, supports = (f"{__package__}.{name}" for name in names)
        registry.add(op, "cpu", "onednn", make, priority=PRIORITY, supports=supports)
        if not op.startswith("_onednn"):  # a layout of one type
            registry.add(
                op, "cpu", "widened", f"{widened}:make", priority=WIDENED, supports=f"{widened}:supported"
            )
