# SPDX-License-Identifier: Apache-2.0
"""oneDNN kernels: functions from signatures to plan capsules, or None where there is no kernel."""

from collections.abc import Sequence

_Specs = Sequence[tuple[Sequence[int], int]]  # shape, type code
_Shape = Sequence[int]

class RecurrentStack:
    """Recurrent layers; `packed`: with parameters as `pack` makes them."""

    def __init__(
        self,
        inputs: _Specs,
        outputs: _Specs,
        *,
        mode: str,
        layers: int,
        directions: int,
        units: int,
        state_outputs: bool,
        dropout: float,
        has_mask: bool,
        is_train: bool,
        random_blocks: int,
        has_lengths: bool,
        packed: bool = False,
    ) -> None: ...
    def forward(self) -> object | None: ...
    def backward(self) -> object | None: ...
    def packed(self) -> tuple[int, tuple[int, ...]]: ...
    def pack(self, inputs: _Specs, outputs: _Specs) -> object | None: ...

class FusedLayer:
    """A convolution, or without a kernel a fully connected layer."""

    def __init__(
        self,
        inputs: _Specs,
        outputs: _Specs,
        *,
        kernel: _Shape = (),
        stride: _Shape = (),
        dilate: _Shape = (),
        pad: _Shape = (),
        groups: int = 1,
        channels_last: bool = False,
        winograd: bool = False,
        weight_shape: _Shape,
        biased: bool,
        residual: bool,
        packed: bool,
        activation: str,
        alpha: float,
        beta: float,
    ) -> None: ...
    def plan(self) -> object | None: ...
    def packed_size(self) -> int: ...
    def packed_format(self) -> tuple[int, ...]: ...
    def pack(self, inputs: _Specs, outputs: _Specs) -> object | None: ...

def convolution(
    inputs: _Specs,
    outputs: _Specs,
    *,
    kernel: _Shape,
    stride: _Shape,
    dilate: _Shape,
    pad: _Shape,
    groups: int,
    channels_last: bool,
    winograd: bool,
) -> object | None: ...
def convolution_backward(
    inputs: _Specs,
    outputs: _Specs,
    *,
    kernel: _Shape,
    stride: _Shape,
    dilate: _Shape,
    pad: _Shape,
    groups: int,
    channels_last: bool,
    winograd: bool,
) -> object | None: ...
def deconvolution(
    inputs: _Specs,
    outputs: _Specs,
    *,
    kernel: _Shape,
    stride: _Shape,
    dilate: _Shape,
    pad: _Shape,
    groups: int,
    channels_last: bool,
    winograd: bool,
) -> object | None: ...
def deconvolution_backward(
    inputs: _Specs,
    outputs: _Specs,
    *,
    kernel: _Shape,
    stride: _Shape,
    dilate: _Shape,
    pad: _Shape,
    groups: int,
    channels_last: bool,
    winograd: bool,
) -> object | None: ...
def fully_connected(inputs: _Specs, outputs: _Specs) -> object | None: ...
def fully_connected_backward(inputs: _Specs, outputs: _Specs) -> object | None: ...
def matmul(
    inputs: _Specs,
    outputs: _Specs,
    *,
    batch: int,
    m: int,
    k: int,
    n: int,
    transpose_a: bool,
    transpose_b: bool,
    scaled: bool,
) -> object | None: ...
def dot_backward(
    inputs: _Specs,
    outputs: _Specs,
    *,
    batch: int,
    m: int,
    k: int,
    n: int,
    transpose_a: bool,
    transpose_b: bool,
    scaled: bool,
) -> object | None: ...
def pooling(
    inputs: _Specs,
    outputs: _Specs,
    *,
    kernel: _Shape,
    stride: _Shape,
    pad: _Shape,
    pool_type: str,
    count_include_pad: bool,
    p_value: int,
    channels_last: bool = ...,
) -> object | None: ...
def pooling_backward(
    inputs: _Specs,
    outputs: _Specs,
    *,
    kernel: _Shape,
    stride: _Shape,
    pad: _Shape,
    pool_type: str,
    count_include_pad: bool,
    p_value: int,
    channels_last: bool = ...,
) -> object | None: ...
def batch_norm(
    inputs: _Specs,
    outputs: _Specs,
    *,
    axis: int,
    eps: float,
    momentum: float,
    fix_gamma: bool,
    use_batch_stats: bool,
) -> object | None: ...
def batch_norm_backward(
    inputs: _Specs,
    outputs: _Specs,
    *,
    axis: int,
    eps: float,
    momentum: float,
    fix_gamma: bool,
    use_batch_stats: bool,
) -> object | None: ...
def layer_norm(inputs: _Specs, outputs: _Specs, *, axis: int, eps: float) -> object | None: ...
def layer_norm_backward(inputs: _Specs, outputs: _Specs, *, axis: int, eps: float) -> object | None: ...
def group_norm(inputs: _Specs, outputs: _Specs, *, groups: int, eps: float) -> object | None: ...
def group_norm_backward(inputs: _Specs, outputs: _Specs, *, groups: int, eps: float) -> object | None: ...
def lrn(
    inputs: _Specs, outputs: _Specs, *, size: int, alpha: float, beta: float, knorm: float
) -> object | None: ...
def lrn_backward(
    inputs: _Specs, outputs: _Specs, *, size: int, alpha: float, beta: float, knorm: float
) -> object | None: ...
def softmax(
    inputs: _Specs, outputs: _Specs, *, view: _Shape, axis: int, logarithm: bool, temperature: float
) -> object | None: ...
def softmax_backward(
    inputs: _Specs, outputs: _Specs, *, view: _Shape, axis: int, logarithm: bool, temperature: float
) -> object | None: ...
def cross_entropy(inputs: _Specs, outputs: _Specs) -> object | None: ...
def cross_entropy_backward(inputs: _Specs, outputs: _Specs) -> object | None: ...
def softmax_output_backward(
    inputs: _Specs,
    outputs: _Specs,
    *,
    rows: int,
    classes: int,
    inner: int,
    smooth_alpha: float,
    use_ignore: bool,
    label_is_distribution: bool,
    normalization: str,
) -> object | None: ...
def attention_scores(inputs: _Specs, outputs: _Specs, *, heads: int, parts: int) -> object | None: ...
def attention_scores_backward(
    inputs: _Specs, outputs: _Specs, *, heads: int, parts: int
) -> object | None: ...
def attention_values(inputs: _Specs, outputs: _Specs, *, heads: int, parts: int) -> object | None: ...
def attention_values_backward(
    inputs: _Specs, outputs: _Specs, *, heads: int, parts: int
) -> object | None: ...
def threads() -> int: ...
def version() -> str: ...
def fused_attention(inputs: _Specs, outputs: _Specs, *, heads: int, scale: float) -> object | None: ...
