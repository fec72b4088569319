# SPDX-License-Identifier: Apache-2.0
"""What monitors call the inputs of a node, as in MXNet."""

from __future__ import annotations

from mx_symbol.graph import Node

#: operators for which MXNet's registry has no names of inputs, though their documentation has
_WITHOUT_NAMES = frozenset((
    "Activation", "BlockGrad", "Cast", "Flatten", "Reshape", "SoftmaxActivation", "_contrib_AdaptiveAvgPooling2D",
    "_contrib_arange_like", "_contrib_bipartite_matching", "_contrib_box_nms", "_contrib_div_sqrt_dim",
    "_contrib_gradientmultiplier", "_contrib_round_ste", "_contrib_sign_ste", "_copy", "_div_scalar", "_equal_scalar",
    "_greater_equal_scalar", "_greater_scalar", "_hypot_scalar", "_image_adjust_lighting", "_image_crop",
    "_image_flip_left_right", "_image_flip_top_bottom", "_image_random_brightness", "_image_random_contrast",
    "_image_random_hue", "_image_random_lighting", "_image_random_saturation", "_image_resize",
    "_lesser_equal_scalar", "_lesser_scalar", "_logical_and_scalar", "_logical_or_scalar", "_logical_xor_scalar",
    "_maximum_scalar", "_minimum_scalar", "_minus_scalar", "_mod_scalar", "_mul_scalar", "_not_equal_scalar",
    "_plus_scalar", "_power_scalar", "_rdiv_scalar", "_rminus_scalar", "_rmod_scalar", "_rpower_scalar",
    "_slice_assign_scalar", "abs", "amp_cast", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh",
    "argmax", "argmax_channel", "argmin", "argsort", "broadcast_axis", "broadcast_to", "cbrt", "ceil", "clip", "cos",
    "cosh", "degrees", "erf", "erfinv", "exp", "expand_dims", "expm1", "fix", "floor", "gamma", "gammaln",
    "hard_sigmoid", "log", "log10", "log1p", "log2", "logical_not", "make_loss", "max", "mean", "min", "nanprod",
    "nansum", "negative", "norm", "ones_like", "prod", "radians", "rcbrt", "reciprocal", "relu", "rint", "round",
    "rsqrt", "shape_array", "sigmoid", "sign", "sin", "sinh", "size_array", "slice", "slice_axis", "smooth_l1",
    "softmin", "softsign", "sort", "sqrt", "square", "sum", "tan", "tanh", "topk", "transpose", "trunc", "zeros_like",
))  # fmt: skip


def monitored_input_names(node: Node) -> tuple[str, ...]:
    """The declared names of a node's inputs, in their order; or `input0`, … where MXNet has none."""
    names = node.input_names
    if node.op is not None and node.op.name in _WITHOUT_NAMES:
        return tuple(f"input{i}" for i in range(len(names)))
    return names
