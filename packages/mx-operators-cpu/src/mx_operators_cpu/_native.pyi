# SPDX-License-Identifier: Apache-2.0
"""CPU kernels: functions from signatures and parameters to plans (capsules `mx.plan.v1`)."""

from collections.abc import Sequence
from typing import Any

from mx_core.kernels import TensorSpec

# Tensors are (shape, element type code). Where there is no kernel for a signature, functions that may return None
# do so, and the others raise NoKernelError. Functions of `_Specs` take tensors of a KernelCall, too, and give None for
# those that are complex or not row-major.
_Tensors = Sequence[tuple[Sequence[int], int]]
_Specs = _Tensors | Sequence[TensorSpec]
_Bounds = Sequence[int | None]
# A sparse matrix: where each row's entries begin (and the last ends), their columns and weights.
_Mixing = tuple[Sequence[int], Sequence[int], Sequence[float]]
_Shape = Sequence[int]
_Part = tuple[Any, Sequence[int], Sequence[int], Sequence[tuple[float, int | None]], bool]
_Move = tuple[int, int, Sequence[int], Sequence[int], Sequence[int], int, int]

def instruction_set() -> str:
    """Name of the loops this CPU runs: baseline, avx2 or avx512."""

def expression_plan(
    serialized: bytes,
    inputs: _Specs,
    outputs: _Specs,
    mutated: Sequence[int] = ...,
    wide_scalars: bool = False,
) -> object:
    """Evaluates an elementwise expression in its serialised form.

    Expression outputs beyond `outputs` are written to the inputs `mutated`. With `wide_scalars`,
    what depends on scalars alone is computed in double.
    """

def reduce_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    op: str,
    reduced: Sequence[bool],
    mean: bool = False,
    root: bool = False,
) -> object:
    """Reduces the marked axes of the first input.

    `op` is sum, prod, max, min, nansum, nanprod, sum_abs or sum_square; `mean` divides by the
    number of elements, `root` takes the square root.
    """

def move_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    moves: Sequence[_Move],
    fill_values: Sequence[tuple[int, float, int | None]] = ...,
    n_scalars: int = 0,
) -> object:
    """Copies between strided views: (input, output, sizes, strides, strides, offset, offset).

    Backgrounds (output, number, run-time scalar or None) are painted first.
    """

def join_plan(inputs: _Specs, outputs: _Specs, *, axis: int, new_axis: bool = False) -> object:
    """Puts arrays together along an axis, or along one that the output has besides."""

def split_plan(inputs: _Specs, outputs: _Specs, *, axis: int, without_axis: bool = False) -> object:
    """Cuts an array into pieces that lie one after the other along an axis, of which they may be rid."""

def permute_plan(inputs: _Specs, outputs: _Specs, *, order: Sequence[int]) -> object:
    """Permutes axes."""

def broadcast_plan(inputs: _Specs, outputs: _Specs, *, shape: Sequence[int]) -> object:
    """Repeats axes of extent 1, and adds some in front, of the input as an array of `shape`."""

def cut_plan(
    inputs: _Specs, outputs: _Specs, *, action: str, begin: _Bounds, end: _Bounds, step: _Bounds = ()
) -> object:
    """Takes a part of an array (`take`); or writes the first input into a part of zeros (`put`), the second into a part
    of the first (`assign`), the run-time scalar into a part of the input (`fill`). Slices are of the leading axes.
    """

def pad_plan(
    inputs: _Tensors, outputs: _Tensors, *, before: Sequence[int], behind: Sequence[int], mode: str
) -> object:
    """Puts something around an array: run-time scalar 0 (constant), its edge or its reflection (reflect)."""

def index_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    op: str,
    action: str,
    bounds: str,
    values: int,
    indices: int,
    extents: Sequence[int],
    outer: int,
    n: int,
    inner: int,
    per_element: bool = False,
) -> object:
    """Rows gathered (`action` "gather") or scattered into zeros ("add", "set").

    The table is (outer, *extents, inner), indices are (len(extents), n), rows (outer, n, inner);
    with `per_element` the table is (n / inner, extent, inner) and each index has one element.
    `bounds` is clip, wrap or raise.
    """

def one_hot_plan(inputs: _Tensors, outputs: _Tensors, depth: int) -> object:
    """Rows of `depth` elements: scalar 0 at the index, scalar 1 elsewhere."""

def arg_plan(
    inputs: _Specs, outputs: _Specs, *, outer: int, extent: int, inner: int, largest: bool
) -> object:
    """First position of the extremum along the middle axis of (outer, extent, inner)."""

def order_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    data: int,
    outer: int,
    extent: int,
    inner: int,
    k: int,
    ascending: bool,
    results: Sequence[str],
) -> object:
    """The first k elements, in stable order, of the middle axis of input `data`, (outer, extent, inner).

    `results` says what each output is: values, positions, mask, or scatter: the first input's
    elements where these came from.
    """

def resample_plan(
    inputs: _Tensors, outputs: _Tensors, *, height: int, width: int, rows: _Mixing, columns: _Mixing
) -> object:
    """rows · image · columnsᵀ of every image (height, width) of the first input."""

def composite_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    temporaries: _Tensors,
    parts: Sequence[_Part],
    n_scalars: int = 0,
    blank: Sequence[int] = (),
) -> object:
    """Plans run one after the other: (plan, inputs, outputs, scalars, runs always).

    Tensors are numbered: inputs, outputs, temporaries. A scalar is a number, or a run-time scalar. What temporaries in
    `blank` hold does not matter to the parts that are given them.
    """

def row_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    op: str,
    rule: str,
    steps: int,
    batch: int,
    inner: int,
    batch_first: bool = False,
    lengths: int | None = None,
) -> object:
    """Rows of `inner` elements of sequences (steps, batch), or (batch, steps), copied by a rule.

    `rule` is mask (scalar 0 behind the end), last, spread (the gradient of last), reverse or
    shuffle; `lengths` the input with the sequences' lengths.
    """

def random_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    op: str,
    distribution: str,
    blocks: int,
    low: int = 0,
    high: int = 0,
) -> object:
    """Random numbers; `distribution` is uniform, normal, exponential or integers.

    `blocks` is the number of Philox counters a run takes; `low` and `high` are for integers.
    """

def dropout_plan(inputs: _Tensors, outputs: _Tensors, *, p: float, active: bool, blocks: int) -> object:
    """Data times mask, and the mask: 0 with probability p, else 1 / (1 − p); 1 if not active."""

def ctc_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    blank_first: bool,
    data_lengths: int | None,
    label_lengths: int | None,
) -> object:
    """Losses (N,) and their slopes (T, N, C) of data (T, N, C) and label (N, L).

    Blank is class 0 and padding 0, or the last class and −1; lengths are positions among the inputs.
    """

def box_iou_plan(inputs: _Tensors, outputs: _Tensors, *, center: bool) -> object:
    """Overlaps (n, m) of boxes (n, 4) and (m, 4), in centre or corner form."""

def box_nms_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    overlap: float,
    valid: float,
    topk: int,
    coordinates: int,
    score: int,
    id: int,
    background: int,
    force: bool,
    center_in: bool,
    center_out: bool,
) -> object:
    """Surviving rows of data (batch, n, width), best first, then −1; where they came from (batch, n)."""

def box_nms_backward_plan(inputs: _Tensors, outputs: _Tensors) -> object:
    """Rows of the out-gradient (batch, n, width) back where they came from (batch, n)."""

def bipartite_plan(
    inputs: _Tensors, outputs: _Tensors, *, ascending: bool, threshold: float, topk: int
) -> object:
    """Per row the column, per column the row matched by scores (batch, rows, columns), or −1."""

def box_encode_plan(inputs: _Tensors, outputs: _Tensors) -> object:
    """Targets and mask from samples, matches, anchors, references, means and standard deviations."""

def box_decode_plan(inputs: _Tensors, outputs: _Tensors, *, corner: bool) -> object:
    """Boxes from offsets and anchors; run-time scalars: four factors and the limit of growth."""

def multibox_prior_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    height: int,
    width: int,
    half_x: Sequence[float],
    half_y: Sequence[float],
    steps: tuple[float, float],
    offsets: tuple[float, float],
    clip: bool,
) -> object:
    """Anchors of every position, by their half extents; steps and offsets are (y, x)."""

def multibox_target_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    overlap: float,
    ignored: float,
    mining_ratio: float,
    mining_overlap: float,
    variances: Sequence[float],
) -> object:
    """Location targets, their mask and class targets of anchors, labels and predictions."""

def multibox_detection_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    threshold: float,
    overlap: float,
    clip: bool,
    force: bool,
    topk: int,
    variances: Sequence[float],
) -> object:
    """Rows (class, probability, box) of probabilities, locations and anchors."""

def correlation_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    kernel: int,
    displacement: int,
    stride: int,
    step: int,
    pad: int,
    multiply: bool,
) -> object:
    """Fits of patches of two maps (N, C, H, W) displaced by multiples of `step`."""

def correlation_backward_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    kernel: int,
    displacement: int,
    stride: int,
    step: int,
    pad: int,
    multiply: bool,
) -> object:
    """Gradients of both maps from the out-gradient and the maps."""

def progression_plan(
    outputs: _Specs, *, start: float, step: float, repeat: int = 1, last: float | None = None
) -> object:
    """start + (i // repeat)·step, with `last` instead of the last number."""

def roi_align_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    bins: tuple[int, int],
    scale: float,
    samples: int,
    sensitive: bool,
    aligned: bool,
) -> object:
    """Means of bilinear samples of data (N, C, H, W) in the bins of regions (R, 5)."""

def roi_align_backward_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    bins: tuple[int, int],
    scale: float,
    samples: int,
    sensitive: bool,
    aligned: bool,
) -> object:
    """The gradient of data from the out-gradient, data (only its shape) and regions."""

def roi_pooling_plan(inputs: _Tensors, outputs: _Tensors, *, bins: tuple[int, int], scale: float) -> object:
    """Maxima of data (N, C, H, W) in the bins of regions (R, 5), and their places as int32."""

def roi_pooling_backward_plan(
    inputs: _Tensors, outputs: _Tensors, *, bins: tuple[int, int], scale: float
) -> object:
    """The gradient of data from the out-gradient, data (only its shape), regions and places."""

def sampler_plan(inputs: _Tensors, outputs: _Tensors) -> object:
    """Data (N, C, H, W) at the points of a grid (N, 2, H′, W′), bilinearly."""

def sampler_backward_plan(inputs: _Tensors, outputs: _Tensors) -> object:
    """Gradients of data and grid from the out-gradient, data and grid."""

def affine_grid_plan(inputs: _Tensors, outputs: _Tensors) -> object:
    """Points (N, 2, H, W) of a regular grid mapped by matrices (N, 6)."""

def affine_grid_backward_plan(inputs: _Tensors, outputs: _Tensors) -> object:
    """The gradient of the matrices."""

def warp_grid_plan(inputs: _Tensors, outputs: _Tensors, *, backward: bool) -> object:
    """Points from displacements in pixels (N, 2, H, W), or the gradient of these."""

def variate_plan(
    inputs: _Tensors, outputs: _Tensors, *, op: str, variate: str, arrays: bool, each: int
) -> object:
    """Random numbers, a Philox counter each; parameters are run-time scalars or `arrays`.

    `variate` is uniform, normal, exponential, gamma, poisson, negative_binomial or
    generalized_negative_binomial; every element of the parameters has `each` numbers.
    """

def multinomial_plan(inputs: _Tensors, outputs: _Tensors, *, each: int) -> object:
    """`each` classes per row of weights (rows, classes), and the logarithms of their weights."""

def all_finite_plan(inputs: _Tensors, outputs: _Tensors) -> object:
    """1 if every number of every array is finite, else 0."""

def reset_plan(inputs: _Tensors) -> object:
    """Every array is set to 0 where it is."""

def update_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    rule: str,
    updates: Sequence[tuple[int, int, Sequence[tuple[float, int | None, int | None, int]]]],
    n_scalars: int,
) -> object:
    """Steps of weights in float32: (first input, output, settings) each.

    `rule` is sgd, momentum, adam or adamw; a setting is (number, run-time scalar or None, input or
    None, element), in the order lr, wd, rescale_grad, clip_gradient, beta1 or momentum, beta2,
    epsilon, eta.
    """

def scan_plan(
    inputs: _Tensors, outputs: _Tensors, *, outer: int, extent: int, inner: int, reverse: bool
) -> object:
    """Running sums along the middle axis of (outer, extent, inner), from the end if `reverse`."""

def histogram_plan(inputs: _Tensors, outputs: _Tensors, edges: Sequence[float]) -> object:
    """Counts of values between edges, and the edges; without `edges` they are the second input."""

def columns_to_image_plan(
    inputs: _Tensors, outputs: _Tensors, axes: Sequence[tuple[int, int, int, int, int]]
) -> object:
    """Windows added up in an image; per axis image, kernel, stride, dilate, pad."""

def product_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    batch: int,
    m: int,
    k: int,
    n: int,
    transpose_a: bool,
    transpose_b: bool,
) -> object:
    """op(A) · op(B) of each of `batch` pairs: (m, k) times (k, n)."""

def image_resize_plan(
    inputs: _Tensors, outputs: _Tensors, *, rows: _Mixing, columns: _Mixing, rounding: str
) -> object:
    """rows · image · columnsᵀ of images (…, height, width, channels).

    `rounding` is none, fixed (8 bits, weights in multiples of 2⁻¹¹) or paired (the same, sums of
    two rows lose bits row by row).
    """

def to_tensor_plan(inputs: _Tensors, outputs: _Tensors) -> object:
    """Images (…, height, width, channels) over 255, channels in front."""

def normalize_plan(
    inputs: _Tensors, outputs: _Tensors, mean: Sequence[float], deviation: Sequence[float]
) -> object:
    """(data − mean) / deviation per channel of images (…, channels, height, width)."""

def flip_plan(inputs: _Tensors, outputs: _Tensors, *, extent: int, inner: int, random: bool) -> object:
    """Slices (…, extent, inner), reversed along the extent; if `random`, in half the cases."""

def deformable_columns_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    dilate: tuple[int, int],
    groups: int,
    masked: bool,
) -> object:
    """Windows of data at offset places, as columns (C · kernel elements, N · windows)."""

def deformable_backward_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    dilate: tuple[int, int],
    groups: int,
    masked: bool,
) -> object:
    """Gradients of data, offset and mask from those of the columns."""

def rotated_align_plan(
    inputs: _Tensors, outputs: _Tensors, *, bins: tuple[int, int], scale: float, samples: int
) -> object:
    """Means of bilinear samples in rotated regions (R, 6)."""

def rotated_align_backward_plan(
    inputs: _Tensors, outputs: _Tensors, *, bins: tuple[int, int], scale: float, samples: int
) -> object:
    """The gradient of data from out-gradient, data (its shape) and regions."""

def psroi_pooling_plan(
    inputs: _Tensors, outputs: _Tensors, *, bins: tuple[int, int], scale: float, groups: int
) -> object:
    """Means of windows, each of the channels of its group."""

def psroi_pooling_backward_plan(
    inputs: _Tensors, outputs: _Tensors, *, bins: tuple[int, int], scale: float, groups: int
) -> object:
    """The gradient of data from out-gradient, data (its shape) and regions."""

def proposal_plan(
    inputs: _Tensors,
    outputs: _Tensors,
    *,
    anchors: Sequence[Sequence[float]],
    stride: int,
    considered: int,
    returned: int,
    threshold: float,
    least_size: float,
    by_corners: bool,
    name: str,
) -> object:
    """The best boxes of a region proposal network, and their scores."""

def hawkes_plan(inputs: _Tensors, outputs: _Tensors) -> object:
    """Log likelihoods of marked self-exciting processes, and states at the end."""

def hawkes_backward_plan(inputs: _Tensors, outputs: _Tensors) -> object:
    """Gradients of background, branching and decay."""

class RecurrentStack:
    """Recurrent layers; `packed`: with parameters as `pack` makes them."""

    def __init__(
        self,
        inputs: _Tensors,
        outputs: _Tensors,
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
    def pack(self, inputs: _Tensors, outputs: _Tensors) -> object | None: ...

class ConvolutionOptions:
    """A convolution's window, one value per spatial axis, groups and layout. Threads: any, nothing changes it."""

    def __init__(
        self, *, kernel: _Shape, stride: _Shape, dilate: _Shape, pad: _Shape, groups: int, channels_last: bool
    ) -> None: ...

class PoolOptions:
    """A pooling's window, one value per spatial axis, and what is taken of it. Threads: any, nothing changes it."""

    def __init__(
        self,
        *,
        kernel: _Shape,
        stride: _Shape,
        pad: _Shape,
        pool_type: str,
        count_include_pad: bool,
        p_value: int,
        channels_last: bool,
    ) -> None: ...

class FusedLayer:
    """A convolution, or without options of one a fully connected layer."""

    def __init__(
        self,
        inputs: _Tensors,
        outputs: _Tensors,
        convolution: ConvolutionOptions | None,
        *,
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
    def pack(self, inputs: _Tensors, outputs: _Tensors, channels_first: bool = False) -> object | None: ...

def convolution(inputs: _Specs, outputs: _Specs, options: ConvolutionOptions) -> object | None: ...
def convolution_backward(inputs: _Specs, outputs: _Specs, options: ConvolutionOptions) -> object | None: ...
def deconvolution(inputs: _Specs, outputs: _Specs, options: ConvolutionOptions) -> object | None: ...
def deconvolution_backward(inputs: _Specs, outputs: _Specs, options: ConvolutionOptions) -> object | None: ...
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
def pooling(inputs: _Specs, outputs: _Specs, options: PoolOptions) -> object | None: ...
def pooling_backward(inputs: _Specs, outputs: _Specs, options: PoolOptions) -> object | None: ...
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
def sync_batch_norm(
    inputs: _Specs,
    outputs: _Specs,
    *,
    axis: int,
    eps: float,
    momentum: float,
    fix_gamma: bool,
    name: str,
    devices: int,
    patience: float,
    engine: object = None,
) -> object | None: ...
def sync_batch_norm_backward(
    inputs: _Specs,
    outputs: _Specs,
    *,
    axis: int,
    eps: float,
    momentum: float,
    fix_gamma: bool,
    name: str,
    devices: int,
    patience: float,
    engine: object = None,
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
def picked_softmax(inputs: _Specs, outputs: _Specs) -> object | None: ...
def picked_softmax_backward(inputs: _Specs, outputs: _Specs) -> object | None: ...
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
def onednn_version() -> str: ...
def fused_attention(inputs: _Specs, outputs: _Specs, *, heads: int, scale: float) -> object | None: ...
