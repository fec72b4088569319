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
        "Reshape", "_backward_reshape", "Flatten", "expand_dims", "squeeze", "reshape_like", "MakeLoss", "make_loss",
        "SVMOutput")),
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
    ("_rnn_param_concat", "moves:concat"),
    *((name, f"moves:{name}") for name in ("repeat", "tile", "depth_to_space", "space_to_depth")),
    ("Pad", "moves:pad"),
    ("_backward_Pad", "moves:backward_pad"),
    ("Crop", "moves:crop"),
    ("_backward_Crop", "moves:backward_crop"),
    *((f"_backward_{name}", f"reduce:backward_{name}") for name in ("tile", "repeat")),
    ("UpSampling", "convolution:upsample"),
    ("_backward_UpSampling", "reduce:backward_upsample"),
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
    ("pick", "indexing:pick"),
    ("batch_take", "indexing:pick"),
    ("take", "indexing:take"),
    ("_backward_take", "indexing:backward_take"),
    ("Embedding", "indexing:embedding"),
    ("_backward_Embedding", "indexing:backward_embedding"),
    ("gather_nd", "indexing:gather_nd"),
    ("_backward_gather_nd", "indexing:backward_gather_nd"),
    ("scatter_nd", "indexing:scatter_nd"),
    ("_scatter_set_nd", "indexing:scatter_set_nd"),
    ("one_hot", "indexing:one_hot"),
    ("sort", "sort:sort"),
    ("argsort", "sort:argsort"),
    ("topk", "sort:topk"),
    ("_backward_sort", "sort:backward_sort"),
    ("_backward_topk", "sort:backward_topk"),
    ("_backward_pick", "rows:backward_pick"),
    *((name, "optimizer:update") for name in UPDATES),
    *((f"_random_{name}", f"random:{name}") for name in ("uniform", "normal", "exponential")),
    *((f"_random_{name}_like", f"random:{name}") for name in ("uniform", "normal", "exponential")),
    ("_random_randint", "random:integers"),
    ("Dropout", "random:dropout"),
    ("Convolution", "convolution:convolve"),
    ("_backward_Convolution", "convolution:backward_convolve"),
    ("Deconvolution", "convolution:deconvolve"),
    ("_backward_Deconvolution", "convolution:backward_deconvolve"),
    ("BatchNorm", "norms:batch_norm"),
    ("_backward_BatchNorm", "norms:backward_batch_norm"),
    ("LayerNorm", "norms:layer_norm"),
    ("_backward_LayerNorm", "norms:backward_layer_norm"),
    *((name, "norms:grouped_norm") for name in ("GroupNorm", "InstanceNorm")),
    *((f"_backward_{name}", "norms:backward_grouped_norm") for name in ("GroupNorm", "InstanceNorm")),
    ("L2Normalization", "norms:l2_normalization"),
    ("_backward_L2Normalization", "norms:backward_l2_normalization"),
    *((f"{name}RegressionOutput", "losses:regression") for name in ("Linear", "Logistic", "MAE")),
    *((f"_backward_{name}RegressionOutput", "losses:backward_regression") for name in ("Linear", "Logistic", "MAE")),
    ("_backward_SVMOutput", "losses:backward_svm"),
    ("_backward_MakeLoss", "losses:backward_make_loss"),
    ("softmax_cross_entropy", "losses:softmax_cross_entropy"),
    ("_backward_softmax_cross_entropy", "losses:backward_softmax_cross_entropy"),
    ("Pooling", "pooling:pool"),
    ("_backward_Pooling", "pooling:backward_pool"),
    *((f"{kind}_contrib_interleaved_matmul_{pair}_{what}", f"attention:{make}")
      for pair in ("selfatt", "encdec") for kind, what, make in (
          ("", "qk", "scores"), ("_backward", "qk", "backward_scores"),
          ("", "valatt", "values"), ("_backward", "valatt", "backward_values"))),
    ("_contrib_div_sqrt_dim", "attention:divide_by_root"),
    ("RNN", "rnn:rnn"),
    ("_backward_RNN", "rnn:backward_rnn"),
    ("dot", "product:dot"),
    ("_backward_dot", "product:backward_dot"),
    ("batch_dot", "product:batch_dot"),
    ("FullyConnected", "product:fully_connected"),
    ("_backward_FullyConnected", "product:fully_connected_backward"),
)  # fmt: skip


def register_kernels(registry: Any) -> None:
    """Adds the kernels of single operators."""
    for op, make in KERNELS:
        variant = "cublas" if make.split(":")[0] in ("attention", "product", "rnn") else "nvrtc"
        registry.add(op, "gpu", variant, f"{__package__}.{make}")
