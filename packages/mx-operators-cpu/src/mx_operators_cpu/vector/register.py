# SPDX-License-Identifier: Apache-2.0
"""Which operators these kernels compute. The native library loads when the first is prepared."""

from __future__ import annotations

from typing import Any

PRIORITY = 10  # portable native code

#: operator, "module:function" of this folder
KERNELS: tuple[tuple[str, str], ...] = (
    *((name, "movement:copy") for name in (
        "Reshape", "_backward_reshape", "Flatten", "expand_dims", "squeeze", "reshape_like",
        "MakeLoss", "make_loss")),
    ("transpose", "movement:transpose"),
    ("SwapAxis", "movement:swap_axes"),
    ("reverse", "movement:reverse"),
    ("depth_to_space", "movement:depth_to_space"),
    ("space_to_depth", "movement:space_to_depth"),
    ("broadcast_to", "movement:broadcast"),
    ("broadcast_axis", "movement:broadcast"),
    ("broadcast_like", "movement:broadcast"),
    ("_backward_sum", "movement:backward_sum"),
    ("repeat", "movement:repeat"),
    ("tile", "movement:tile"),
    ("slice", "movement:slice_"),
    ("_backward_slice", "movement:backward_slice"),
    ("slice_axis", "movement:slice_axis"),
    ("_backward_slice_axis", "movement:backward_slice_axis"),
    ("slice_like", "movement:slice_like"),
    ("_backward_slice_like", "movement:backward_slice_like"),
    ("_slice_assign", "movement:slice_assign"),
    ("Pad", "movement:pad"),
    ("_backward_Pad", "movement:backward_pad"),
    ("Concat", "movement:concat"),
    ("_backward_Concat", "movement:backward_concat"),
    ("stack", "movement:stack"),
    ("SliceChannel", "movement:split"),
    ("_split_v2", "movement:split"),
    ("_zeros", "movement:zeros"),
    ("_ones", "movement:ones"),
    ("_full", "movement:full"),
    *((name, "reduce:reduce") for name in ("sum", "mean", "prod", "nansum", "nanprod", "max", "min")),
    ("norm", "reduce:norm"),
    ("_unbroadcast", "reduce:unbroadcast"),
    ("_backward_repeat", "reduce:backward_repeat"),
    ("_backward_tile", "reduce:backward_tile"),
    ("_backward_mean", "reduce:backward_mean"),
    *((f"_backward_{name}", "reduce:backward_from_output") for name in (
        "extremum", "prod", "nansum", "nanprod")),
    ("_backward_norm", "reduce:backward_norm"),
    ("argmax", "reduce:arg"),
    ("argmin", "reduce:arg"),
    ("argmax_channel", "reduce:arg"),
    ("take", "indexing:take"),
    ("_backward_take", "indexing:backward_take"),
    ("Embedding", "indexing:embedding"),
    ("_backward_Embedding", "indexing:backward_embedding"),
    ("pick", "indexing:pick"),
    ("batch_take", "indexing:pick"),
    ("_backward_pick", "indexing:backward_pick"),
    ("one_hot", "indexing:one_hot"),
    ("gather_nd", "indexing:gather_nd"),
    ("_backward_gather_nd", "indexing:backward_gather_nd"),
    ("scatter_nd", "indexing:scatter_nd"),
    ("_scatter_set_nd", "indexing:scatter_set_nd"),
    ("where", "indexing:where"),
    *((f"{kind}_contrib_{name}", f"resample:{make}") for kind, make in (("", "resample"), ("_backward", "backward"))
      for name in ("AdaptiveAvgPooling2D", "BilinearResize2D")),
    ("LeakyReLU", "activation:prelu"),
    ("_backward_LeakyReLU", "activation:backward_prelu"),
    *((f"{name}RegressionOutput", "movement:copy") for name in ("Linear", "MAE")),
    *((f"_backward_{name}RegressionOutput", "loss:backward_regression") for name in ("Linear", "Logistic", "MAE")),
    ("LogisticRegressionOutput", "loss:logistic"),
    ("softmax_cross_entropy", "loss:softmax_cross_entropy"),
    ("_backward_softmax_cross_entropy", "loss:backward_softmax_cross_entropy"),
    ("L2Normalization", "normalize:l2_normalization"),
    ("_backward_L2Normalization", "normalize:backward_l2_normalization"),
    ("_contrib_div_sqrt_dim", "normalize:div_sqrt_dim"),
    ("UpSampling", "resample:upsample"),
    ("_backward_UpSampling", "resample:backward_upsample"),
    *((name, f"order:{name}") for name in ("sort", "argsort", "topk")),
    ("_backward_sort", "order:backward_sort"),
    ("_backward_topk", "order:backward_topk"),
    ("SequenceMask", "rows:mask"),
    ("SequenceLast", "rows:last"),
    ("_backward_SequenceLast", "rows:backward_last"),
    ("SequenceReverse", "rows:reverse"),
    ("_shuffle", "rows:shuffle"),
    ("_random_uniform", "random:uniform"),
    ("_random_uniform_like", "random:uniform"),
    ("_random_normal", "random:normal"),
    ("_random_normal_like", "random:normal"),
    ("_random_exponential", "random:exponential"),
    ("_random_randint", "random:integers"),
    ("Dropout", "random:dropout"),
    ("CTCLoss", "ctc:ctc_loss"),
    ("_backward_CTCLoss", "ctc:backward_ctc_loss"),
    ("SVMOutput", "movement:copy"),
    ("_backward_SVMOutput", "svm:backward_svm"),
    ("_contrib_box_iou", "boxes:box_iou"),
    ("_contrib_box_nms", "boxes:box_nms"),
    ("_backward_contrib_box_nms", "boxes:backward_box_nms"),
    ("_contrib_bipartite_matching", "boxes:bipartite_matching"),
    ("_contrib_box_encode", "boxes:box_encode"),
    ("_contrib_box_decode", "boxes:box_decode"),
    *((f"_contrib_MultiBox{name}", f"boxes:multibox_{name.lower()}") for name in ("Prior", "Target", "Detection")),
    ("_contrib_ROIAlign", "regions:roi_align"),
    ("_backward_contrib_ROIAlign", "regions:backward_roi_align"),
    ("ROIPooling", "regions:roi_pooling"),
    ("_backward_ROIPooling", "regions:backward_roi_pooling"),
    ("BilinearSampler", "sampler:sampler"),
    ("_backward_BilinearSampler", "sampler:backward_sampler"),
    ("GridGenerator", "sampler:grid"),
    ("_backward_GridGenerator", "sampler:backward_grid"),
    ("SpatialTransformer", "sampler:transformer"),
    ("Correlation", "correlation:correlation"),
    ("_backward_Correlation", "correlation:backward_correlation"),
    ("_random_exponential_like", "random:exponential"),
    *((f"_random_{name}{like}", "variates:draw") for like in ("", "_like") for name in (
        "gamma", "poisson", "negative_binomial", "generalized_negative_binomial")),
    *((f"_sample_{name}", "variates:sample") for name in (
        "uniform", "normal", "exponential", "gamma", "poisson", "negative_binomial",
        "generalized_negative_binomial")),
    ("_sample_multinomial", "variates:multinomial"),
    ("_arange", "fill:arange"),
    ("_linspace", "fill:linspace"),
    ("_eye", "fill:eye"),
    ("diag", "fill:diag"),
    ("_backward_diag", "fill:backward_diag"),
    ("_slice_assign_scalar", "fill:assign_scalar"),
    ("Crop", "fill:crop"),
    ("_backward_Crop", "fill:backward_crop"),
    *((name, "optimizer:update") for name in (
        "sgd_update", "sgd_mom_update", "nag_mom_update", "signsgd_update", "signum_update",
        "adam_update", "rmsprop_update", "rmspropalex_update", "ftrl_update", "ftml_update",
        "mp_sgd_update", "mp_sgd_mom_update", "mp_nag_mom_update", "_adamw_update", "_mp_adamw_update",
        "lamb_update_phase1", "mp_lamb_update_phase1", "lamb_update_phase2", "mp_lamb_update_phase2")),
    *((f"multi_{name}", "optimizer:multi_update") for name in (
        "sgd_update", "sgd_mom_update", "mp_sgd_update", "mp_sgd_mom_update")),
)  # fmt: skip


def register_kernels(registry: Any) -> None:
    """Adds the kernels of single operators."""
    for op, make in KERNELS:
        registry.add(op, "cpu", "vector", f"{__package__}.{make}", priority=PRIORITY)


def register_generators(registry: Any) -> None:
    """Adds the generator of kernels for elementwise expressions."""
    registry.add("cpu", "vector", f"{__package__}.elementwise:generate", priority=PRIORITY)
