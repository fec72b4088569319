# SPDX-License-Identifier: Apache-2.0
"""Which operators these kernels compute, and where. The native library loads when the first is prepared."""

from __future__ import annotations

from typing import Any

ONEDNN = 20  # kernels that run primitives of oneDNN, or their equals
UPCAST = 15  # the same in float32 between casts
VECTOR = 10  # loops for every element type

#: operator, module:function, module:function that says whether the call is supported; None where native code does so
ONEDNN_KERNELS: tuple[tuple[str, str, str | None], ...] = (
    ("Convolution", "convolution.convolution:convolution", None),
    ("_fused_Convolution", "convolution.fused_layer:layer", "signature:float32_or_bfloat16"),
    ("_fused_FullyConnected", "convolution.fused_layer:layer", "signature:float32_or_bfloat16"),
    ("_onednn_pack_weight", "convolution.fused_layer:pack", "signature:float32_or_bfloat16"),
    ("_backward_Convolution", "convolution.convolution:convolution_backward", "signature:native_floats"),
    ("Deconvolution", "convolution.convolution:deconvolution", None),
    ("_backward_Deconvolution", "convolution.convolution:deconvolution_backward", "signature:native_floats"),
    ("FullyConnected", "matmul.dense:fully_connected", None),
    ("_backward_FullyConnected", "matmul.dense:fully_connected_backward", "signature:native_floats"),
    ("dot", "matmul.dense:dot", "signature:native_floats"),
    ("batch_dot", "matmul.dense:batch_dot", "signature:native_floats"),
    ("_backward_dot", "matmul.dense:dot_backward", "signature:native_floats"),
    ("_linalg_gemm", "matmul.dense:gemm", "signature:native_floats"),
    ("_linalg_gemm2", "matmul.dense:gemm", "signature:native_floats"),
    ("Pooling", "pooling:pooling", None),
    ("_backward_Pooling", "pooling:pooling_backward", "pooling:supported"),
    ("BatchNorm", "norm.norm:batch_norm", "signature:native_floats"),
    ("_backward_BatchNorm", "norm.norm:batch_norm_backward", "signature:native_floats"),
    ("_contrib_SyncBatchNorm", "norm.norm:sync_batch_norm", "norm.norm:sync_supported"),
    ("_backward_contrib_SyncBatchNorm", "norm.norm:sync_batch_norm_backward", "norm.norm:sync_supported"),
    ("LayerNorm", "norm.norm:layer_norm", "signature:native_floats"),
    ("_backward_LayerNorm", "norm.norm:layer_norm_backward", "signature:native_floats"),
    ("GroupNorm", "norm.norm:group_norm", "signature:native_floats"),
    ("_backward_GroupNorm", "norm.norm:group_norm_backward", "signature:native_floats"),
    ("InstanceNorm", "norm.norm:group_norm", "signature:native_floats"),
    ("_backward_InstanceNorm", "norm.norm:group_norm_backward", "signature:native_floats"),
    ("LRN", "norm.norm:lrn", "signature:native_floats"),
    ("_backward_LRN", "norm.norm:lrn_backward", "signature:native_floats"),
    ("softmax", "softmax:softmax", "softmax:supported"),
    ("_backward_softmax", "softmax:softmax_backward", "softmax:supported"),
    ("softmin", "softmax:softmin", "softmax:supported"),
    ("_backward_softmin", "softmax:softmin_backward", "softmax:supported"),
    ("log_softmax", "softmax:log_softmax", "softmax:supported"),
    ("_backward_log_softmax", "softmax:log_softmax_backward", "softmax:supported"),
    ("SoftmaxActivation", "softmax:softmax_activation", "signature:native_floats"),
    ("_backward_SoftmaxActivation", "softmax:softmax_activation_backward", "signature:native_floats"),
    ("SoftmaxOutput", "softmax:softmax_output", "signature:native_floats"),
    ("_backward_SoftmaxOutput", "softmax:softmax_output_backward", "signature:native_floats"),
    ("softmax_cross_entropy", "softmax:cross_entropy", "signature:float32_or_bfloat16"),
    ("_backward_softmax_cross_entropy", "softmax:cross_entropy_backward", "signature:float32_or_bfloat16"),
    *((f"{kind}_contrib_interleaved_matmul_{pair}_{what}", f"attention.interleaved:{make}",
       "signature:native_floats")
      for pair in ("selfatt", "encdec") for kind, what, make in (
          ("", "qk", "scores"), ("_backward", "qk", "scores_backward"),
          ("", "valatt", "values"), ("_backward", "valatt", "values_backward"))),
    ("RNN", "rnn.rnn:rnn", "rnn.rnn:supported"),
    ("_backward_RNN", "rnn.rnn:rnn_backward", "rnn.rnn:supported"),
    ("_fused_attention", "attention.fused_attention:fused_attention", "signature:native_floats"),
    ("_onednn_RNN", "rnn.packed_rnn:packed_rnn", "signature:float32_or_bfloat16"),
    ("_onednn_pack_RNN", "rnn.packed_rnn:pack", "signature:float32_or_bfloat16"),
)  # fmt: skip

#: operator, "module:function"
VECTOR_KERNELS: tuple[tuple[str, str], ...] = (
    *((name, "indexing.strided_copy:copy") for name in (
        "Reshape", "_backward_reshape", "Flatten", "expand_dims", "squeeze", "reshape_like",
        "MakeLoss", "make_loss")),
    ("transpose", "indexing.strided_copy:transpose"),
    ("SwapAxis", "indexing.strided_copy:swap_axes"),
    ("reverse", "indexing.strided_copy:reverse"),
    ("depth_to_space", "indexing.strided_copy:depth_to_space"),
    ("space_to_depth", "indexing.strided_copy:space_to_depth"),
    ("broadcast_to", "indexing.strided_copy:broadcast"),
    ("broadcast_axis", "indexing.strided_copy:broadcast"),
    ("broadcast_like", "indexing.strided_copy:broadcast"),
    ("_backward_sum", "indexing.strided_copy:backward_sum"),
    ("repeat", "indexing.strided_copy:repeat"),
    ("tile", "indexing.strided_copy:tile"),
    ("slice", "indexing.strided_copy:slice_"),
    ("_backward_slice", "indexing.strided_copy:backward_slice"),
    ("slice_axis", "indexing.strided_copy:slice_axis"),
    ("_backward_slice_axis", "indexing.strided_copy:backward_slice_axis"),
    ("slice_like", "indexing.strided_copy:slice_like"),
    ("_backward_slice_like", "indexing.strided_copy:backward_slice_like"),
    ("_slice_assign", "indexing.strided_copy:slice_assign"),
    ("_slice_assign_scalar", "indexing.strided_copy:slice_assign_scalar"),
    ("Pad", "indexing.strided_copy:pad"),
    ("_backward_Pad", "indexing.strided_copy:backward_pad"),
    ("Concat", "indexing.strided_copy:concat"),
    ("_backward_Concat", "indexing.strided_copy:backward_concat"),
    ("stack", "indexing.strided_copy:stack"),
    ("SliceChannel", "indexing.strided_copy:split"),
    ("_split_v2", "indexing.strided_copy:split"),
    ("_zeros", "indexing.strided_copy:zeros"),
    ("_ones", "indexing.strided_copy:ones"),
    ("_full", "indexing.strided_copy:full"),
    *((name, "reduce.reduce:reduce") for name in ("sum", "mean", "prod", "nansum", "nanprod", "max", "min")),
    ("norm", "reduce.reduce:norm"),
    ("_unbroadcast", "reduce.reduce:unbroadcast"),
    ("_backward_repeat", "reduce.reduce:backward_repeat"),
    ("_backward_tile", "reduce.reduce:backward_tile"),
    ("_backward_mean", "reduce.reduce:backward_mean"),
    *((f"_backward_{name}", "reduce.reduce:backward_from_output") for name in (
        "extremum", "prod", "nansum", "nanprod")),
    ("_backward_norm", "reduce.reduce:backward_norm"),
    ("argmax", "reduce.reduce:arg"),
    ("argmin", "reduce.reduce:arg"),
    ("argmax_channel", "reduce.reduce:arg"),
    ("take", "indexing.index:take"),
    ("_backward_take", "indexing.index:backward_take"),
    ("Embedding", "indexing.index:embedding"),
    ("_backward_Embedding", "indexing.index:backward_embedding"),
    ("pick", "indexing.index:pick"),
    ("batch_take", "indexing.index:pick"),
    ("_backward_pick", "indexing.index:backward_pick"),
    ("one_hot", "indexing.index:one_hot"),
    ("gather_nd", "indexing.index:gather_nd"),
    ("_backward_gather_nd", "indexing.index:backward_gather_nd"),
    ("scatter_nd", "indexing.index:scatter_nd"),
    ("_scatter_set_nd", "indexing.index:scatter_set_nd"),
    ("where", "indexing.index:where"),
    *((f"{kind}_contrib_{name}", f"image.resample:{make}")
      for kind, make in (("", "resample"), ("_backward", "backward"))
      for name in ("AdaptiveAvgPooling2D", "BilinearResize2D")),
    ("LeakyReLU", "elementwise.prelu:prelu"),
    ("_backward_LeakyReLU", "elementwise.prelu:backward_prelu"),
    *((f"{name}RegressionOutput", "indexing.strided_copy:copy") for name in ("Linear", "MAE")),
    *((f"_backward_{name}RegressionOutput", "loss.regression:backward_regression")
      for name in ("Linear", "Logistic", "MAE")),
    ("LogisticRegressionOutput", "loss.regression:logistic"),
    ("softmax_cross_entropy", "loss.regression:softmax_cross_entropy"),
    ("_backward_softmax_cross_entropy", "loss.regression:backward_softmax_cross_entropy"),
    ("_fused_log_softmax_pick", "softmax:picked"),
    ("_fused_log_softmax_pick_gradient", "softmax:picked_backward"),
    ("L2Normalization", "norm.l2_normalization:l2_normalization"),
    ("_backward_L2Normalization", "norm.l2_normalization:backward_l2_normalization"),
    ("_contrib_div_sqrt_dim", "norm.l2_normalization:div_sqrt_dim"),
    ("UpSampling", "image.resample:upsample"),
    ("_backward_UpSampling", "image.resample:backward_upsample"),
    *((name, f"sort:{name}") for name in ("sort", "argsort", "topk")),
    ("_backward_sort", "sort:backward_sort"),
    ("_backward_topk", "sort:backward_topk"),
    ("SequenceMask", "indexing.sequence:mask"),
    ("SequenceLast", "indexing.sequence:last"),
    ("_backward_SequenceLast", "indexing.sequence:backward_last"),
    ("SequenceReverse", "indexing.sequence:reverse"),
    ("_shuffle", "indexing.sequence:shuffle"),
    ("_random_uniform", "random.random:uniform"),
    ("_random_uniform_like", "random.random:uniform"),
    ("_random_normal", "random.random:normal"),
    ("_random_normal_like", "random.random:normal"),
    ("_random_exponential", "random.random:exponential"),
    ("_random_randint", "random.random:integers"),
    ("Dropout", "random.random:dropout"),
    ("CTCLoss", "loss.ctc:ctc_loss"),
    ("_backward_CTCLoss", "loss.ctc:backward_ctc_loss"),
    ("SVMOutput", "indexing.strided_copy:copy"),
    ("_backward_SVMOutput", "loss.svm:backward_svm"),
    ("_contrib_box_iou", "vision.boxes:box_iou"),
    ("_contrib_box_nms", "vision.boxes:box_nms"),
    ("_backward_contrib_box_nms", "vision.boxes:backward_box_nms"),
    ("_contrib_bipartite_matching", "vision.boxes:bipartite_matching"),
    ("_contrib_box_encode", "vision.boxes:box_encode"),
    ("_contrib_box_decode", "vision.boxes:box_decode"),
    *((f"_contrib_MultiBox{name}", f"vision.boxes:multibox_{name.lower()}")
      for name in ("Prior", "Target", "Detection")),
    ("_contrib_ROIAlign", "vision.regions:roi_align"),
    ("_backward_contrib_ROIAlign", "vision.regions:backward_roi_align"),
    ("ROIPooling", "vision.regions:roi_pooling"),
    ("_backward_ROIPooling", "vision.regions:backward_roi_pooling"),
    ("BilinearSampler", "vision.sampler:sampler"),
    ("_backward_BilinearSampler", "vision.sampler:backward_sampler"),
    ("GridGenerator", "vision.sampler:grid"),
    ("_backward_GridGenerator", "vision.sampler:backward_grid"),
    ("SpatialTransformer", "vision.sampler:transformer"),
    ("Correlation", "vision.correlation:correlation"),
    ("_backward_Correlation", "vision.correlation:backward_correlation"),
    ("_random_exponential_like", "random.random:exponential"),
    *((f"_random_{name}{like}", "random.variates:draw") for like in ("", "_like") for name in (
        "gamma", "poisson", "negative_binomial", "generalized_negative_binomial")),
    *((f"_sample_{name}", "random.variates:sample") for name in (
        "uniform", "normal", "exponential", "gamma", "poisson", "negative_binomial",
        "generalized_negative_binomial")),
    ("_sample_multinomial", "random.variates:multinomial"),
    ("_arange", "indexing.fill:arange"),
    ("_linspace", "indexing.fill:linspace"),
    ("_eye", "indexing.fill:eye"),
    ("diag", "indexing.fill:diag"),
    ("_backward_diag", "indexing.fill:backward_diag"),
    ("Crop", "indexing.fill:crop"),
    ("_backward_Crop", "indexing.fill:backward_crop"),
    *((name, "optimizer.optimizer:update") for name in (
        "sgd_update", "sgd_mom_update", "nag_mom_update", "signsgd_update", "signum_update",
        "adam_update", "rmsprop_update", "rmspropalex_update", "ftrl_update", "ftml_update",
        "_sparse_adagrad_update",
        "mp_sgd_update", "mp_sgd_mom_update", "mp_nag_mom_update", "_adamw_update", "_mp_adamw_update",
        "lamb_update_phase1", "mp_lamb_update_phase1", "lamb_update_phase2", "mp_lamb_update_phase2")),
    *((f"multi_{name}", "optimizer.optimizer:multi_update") for name in (
        "sgd_update", "sgd_mom_update", "mp_sgd_update", "mp_sgd_mom_update")),
    *((f"preloaded_multi_{name}", "optimizer.multi:preloaded_update") for name in (
        "sgd_update", "sgd_mom_update", "mp_sgd_update", "mp_sgd_mom_update")),
    ("_preloaded_multi_adam_update", "optimizer.multi:preloaded_update"),
    *((f"_multi_{mixed}adamw_update", "optimizer.multi:multi_adamw") for mixed in ("", "mp_")),
    *((f"_multi_{mixed}lamb_update", "optimizer.multi:multi_lamb") for mixed in ("", "mp_")),
    ("_contrib_group_adagrad_update", "optimizer.multi:group_adagrad"),
    ("multi_sum_sq", "optimizer.multi:sums_of_squares"),
    ("multi_lars", "optimizer.multi:layer_rates"),
    ("all_finite", "optimizer.multi:all_finite"),
    ("multi_all_finite", "optimizer.multi:all_finite"),
    ("reset_arrays", "optimizer.multi:reset"),
    ("amp_multicast", "elementwise.casts:multicast"),
    ("_linalg_syrk", "matmul.matmul_loops:syrk"),
    ("_rnn_param_concat", "indexing.strided_copy:concat"),
    ("moments", "reduce.scan:moments"),
    ("_backward_moments", "reduce.scan:backward_moments"),
    ("_np_cumsum", "reduce.scan:cumsum"),
    ("_backward_np_cumsum", "reduce.scan:backward_cumsum"),
    ("_histogram", "reduce.scan:histogram"),
    ("im2col", "reduce.scan:im2col"),
    ("_backward_im2col", "reduce.scan:col2im"),
    ("col2im", "reduce.scan:col2im"),
    *((f"_image_{name}", f"image.images:{name}") for name in ("to_tensor", "normalize", "crop", "resize")),
    *((f"_backward_image_{name}", f"image.images:backward_{name}") for name in ("normalize", "crop")),
    *((f"_image_{kind}flip_{way}", "image.images:flip") for kind in ("", "random_") for way in (
        "left_right", "top_bottom")),
    *((f"{kind}_random_pdf_{name}", make) for kind, make in (
        ("", "random.density:density"), ("_backward", "random.density:backward_density")) for name in (
        "uniform", "normal", "exponential", "gamma", "poisson", "negative_binomial",
        "generalized_negative_binomial")),
    ("_random_pdf_dirichlet", "random.density:dirichlet"),
    ("_backward_random_pdf_dirichlet", "random.density:backward_dirichlet"),
    *((f"_contrib_{kind}DeformableConvolution", "convolution.deformable:convolution") for kind in ("", "Modulated")),
    *((f"_backward_contrib_{kind}DeformableConvolution", "convolution.deformable:backward_convolution")
      for kind in ("", "Modulated")),
    ("_contrib_RROIAlign", "vision.regions:rotated_align"),
    ("_backward_contrib_RROIAlign", "vision.regions:backward_rotated_align"),
    ("_contrib_PSROIPooling", "vision.regions:psroi_pooling"),
    ("_backward_contrib_PSROIPooling", "vision.regions:backward_psroi_pooling"),
    ("_contrib_Proposal", "vision.regions:proposal"),
    ("_contrib_MultiProposal", "vision.regions:proposal"),
    ("_contrib_hawkesll", "vision.regions:hawkes"),
    ("_backward_contrib_hawkesll", "vision.regions:backward_hawkes"),
)  # fmt: skip


def qualified(name: str) -> str:
    """`module:function` of this package with its full name."""
    return f"{__package__}.{name}"


def register_kernels(registry: Any) -> None:
    """Adds the kernels of single operators, and after oneDNN's the same between casts from and to 16-bit types."""
    for op, make, supports in ONEDNN_KERNELS:
        says = None if supports is None else qualified(supports)
        registry.add(op, "cpu", "onednn", qualified(make), priority=ONEDNN, supports=says)
        if not op.startswith("_onednn"):  # a layout of one type
            registry.add(
                op,
                "cpu",
                "upcast",
                qualified("upcast:make"),
                priority=UPCAST,
                supports=qualified("upcast:supported"),
            )
    for op, make in VECTOR_KERNELS:
        registry.add(op, "cpu", "vector", qualified(make), priority=VECTOR)


def register_generators(registry: Any) -> None:
    """Adds the generator of kernels for elementwise expressions."""
    registry.add("cpu", "vector", qualified("elementwise.expression:generate"), priority=VECTOR)


def register_passes(registry: Any) -> None:
    """Adds the graph passes that prepack weights."""
    registry.add(
        "pack-weights", "inference", qualified("convolution.fused_layer:pack_weights"), after=("layers",)
    )
    registry.add(
        "pack-recurrent",
        "inference",
        qualified("rnn.packed_rnn:pack_recurrent"),
        after=("layers", "bfloat16"),
    )
