# SPDX-License-Identifier: Apache-2.0
"""Where operators are declared; written by `python -m mx_core.operator.later`."""

# ruff: noqa: E501
OPERATORS = """\
mx_operators.array.amp
    amp_cast
    amp_multicast
mx_operators.array.broadcast
    _unbroadcast
    broadcast_to
    broadcast_axis broadcast_axes
    broadcast_like
mx_operators.array.cast
    Cast cast : _backward_Cast
    _backward_Cast
    _copyto : _backward__copyto _backward_backward__copyto
    _identity_with_attr_like_rhs : _backward__identity_with_attr_like_rhs _backward_backward__identity_with_attr_like_rhs
mx_operators.array.diag
    diag : _backward_diag
mx_operators.array.fill
    _zeros
    _ones
    _full
    _arange
    _linspace
    _eye
    zeros_like
    ones_like
mx_operators.array.gather
    gather_nd : _backward_gather_nd
    scatter_nd
    _scatter_set_nd
mx_operators.array.histogram
    _histogram
mx_operators.array.join
    Concat concat : _backward_Concat
    stack
    SliceChannel split
    _split_v2
    add_n ElementWiseSum
mx_operators.array.one_hot
    one_hot
mx_operators.array.order
    sort : _backward_sort
    argsort
    topk : _backward_topk
    _backward_topk
    argmax
    argmin
    argmax_channel
mx_operators.array.pad
    Pad pad : _backward_Pad
mx_operators.array.ravel
    _ravel_multi_index ravel_multi_index
    _unravel_index unravel_index
    _contrib_arange_like
mx_operators.array.repeat
    repeat : _backward_repeat
    tile : _backward_tile
mx_operators.array.reshape
    _backward_reshape
    Reshape reshape : _backward_reshape
    Flatten flatten
    expand_dims
    squeeze
    reshape_like
mx_operators.array.rows
    _onehot_encode
    fill_element_0index
mx_operators.array.scan
    _np_cumsum cumsum : _backward_np_cumsum
mx_operators.array.shape
    shape_array
    size_array
mx_operators.array.slice
    slice crop : _backward_slice
    slice_axis : _backward_slice_axis
    slice_like
    _backward_slice_like
mx_operators.array.slice_assign
    _slice_assign _crop_assign
    _slice_assign_scalar _crop_assign_scalar
mx_operators.array.take
    take : _backward_take
    pick choose_element_0index : _backward_pick
    batch_take
mx_operators.array.transpose
    transpose
    SwapAxis swapaxes
    reverse flip
    depth_to_space
    space_to_depth
mx_operators.array.where
    where
mx_operators.contrib.allclose
    _contrib_allclose
mx_operators.contrib.batch_norm
    _contrib_SyncBatchNorm : _backward_contrib_SyncBatchNorm
    _contrib_BatchNormWithReLU : _backward_contrib_BatchNormWithReLU
mx_operators.contrib.boolean_mask
    _contrib_boolean_mask _npi_boolean_mask : _backward_contrib_boolean_mask
mx_operators.contrib.columns
    im2col : _backward_im2col
    col2im
mx_operators.contrib.count_sketch
    _contrib_count_sketch : _backward_contrib_count_sketch
mx_operators.contrib.fourier
    _contrib_fft : _backward_contrib_fft
    _contrib_ifft : _backward_contrib_ifft
mx_operators.contrib.hawkes
    _contrib_hawkesll : _backward_contrib_hawkesll
mx_operators.contrib.index
    _contrib_index_copy : _backward_contrib_index_copy
    _contrib_index_array
mx_operators.contrib.straight_through
    _contrib_gradientmultiplier : _backward__contrib_gradientmultiplier _backward_backward__contrib_gradientmultiplier
    _contrib_round_ste _sparse__contrib_round_ste : _backward__contrib_round_ste _backward_backward__contrib_round_ste
    _contrib_sign_ste _sparse__contrib_sign_ste : _backward__contrib_sign_ste _backward_backward__contrib_sign_ste
mx_operators.elementwise.activation
    Activation : _backward_Activation _backward_backward_Activation
    LeakyReLU : _backward_LeakyReLU
    _backward_LeakyReLU
mx_operators.elementwise.binary
    elemwise_add _plus _add _Plus : _backward_elemwise_add _backward_backward_elemwise_add
    elemwise_sub _minus _sub _Minus : _backward_elemwise_sub _backward_backward_elemwise_sub
    elemwise_mul _mul _Mul : _backward_elemwise_mul _backward_backward_elemwise_mul
    elemwise_div _div _Div : _backward_elemwise_div _backward_backward_elemwise_div
    _grad_add : _backward__grad_add _backward_backward__grad_add
    _mod _Mod : _backward__mod _backward_backward__mod
    _power _Power : _backward__power _backward_backward__power
    _maximum _Maximum : _backward__maximum _backward_backward__maximum
    _minimum _Minimum : _backward__minimum _backward_backward__minimum
    _hypot _Hypot : _backward__hypot _backward_backward__hypot
    _equal _Equal
    _not_equal _Not_Equal
    _greater _Greater
    _greater_equal _Greater_Equal
    _lesser _Lesser
    _lesser_equal _Lesser_Equal
    _logical_and _Logical_And
    _logical_or _Logical_Or
    _logical_xor _Logical_Xor
    broadcast_add broadcast_plus : _backward_broadcast_add _backward_backward_broadcast_add
    broadcast_sub broadcast_minus : _backward_broadcast_sub _backward_backward_broadcast_sub
    broadcast_mul : _backward_broadcast_mul _backward_backward_broadcast_mul
    broadcast_div : _backward_broadcast_div _backward_backward_broadcast_div
    broadcast_mod : _backward_broadcast_mod _backward_backward_broadcast_mod
    broadcast_power : _backward_broadcast_power _backward_backward_broadcast_power
    broadcast_maximum : _backward_broadcast_maximum _backward_backward_broadcast_maximum
    broadcast_minimum : _backward_broadcast_minimum _backward_backward_broadcast_minimum
    broadcast_hypot : _backward_broadcast_hypot _backward_backward_broadcast_hypot
    broadcast_equal
    broadcast_not_equal
    broadcast_greater
    broadcast_greater_equal
    broadcast_lesser
    broadcast_lesser_equal
    broadcast_logical_and
    broadcast_logical_or
    broadcast_logical_xor
    _plus_scalar _PlusScalar : _backward__plus_scalar _backward_backward__plus_scalar
    _minus_scalar _MinusScalar : _backward__minus_scalar _backward_backward__minus_scalar
    _rminus_scalar _RMinusScalar : _backward__rminus_scalar _backward_backward__rminus_scalar
    _mul_scalar _MulScalar : _backward__mul_scalar _backward_backward__mul_scalar
    _div_scalar _DivScalar : _backward__div_scalar _backward_backward__div_scalar
    _rdiv_scalar _RDivScalar : _backward__rdiv_scalar _backward_backward__rdiv_scalar
    _mod_scalar _ModScalar : _backward__mod_scalar _backward_backward__mod_scalar
    _rmod_scalar _RModScalar : _backward__rmod_scalar _backward_backward__rmod_scalar
    _power_scalar _PowerScalar : _backward__power_scalar _backward_backward__power_scalar
    _rpower_scalar _RPowerScalar : _backward__rpower_scalar _backward_backward__rpower_scalar
    _maximum_scalar _MaximumScalar : _backward__maximum_scalar _backward_backward__maximum_scalar
    _minimum_scalar _MinimumScalar : _backward__minimum_scalar _backward_backward__minimum_scalar
    _hypot_scalar _HypotScalar : _backward__hypot_scalar _backward_backward__hypot_scalar
    _equal_scalar _EqualScalar
    _not_equal_scalar _NotEqualScalar
    _greater_scalar _GreaterScalar
    _greater_equal_scalar _GreaterEqualScalar
    _lesser_scalar _LesserScalar
    _lesser_equal_scalar _LesserEqualScalar
    _logical_and_scalar _LogicalAndScalar
    _logical_or_scalar _LogicalOrScalar
    _logical_xor_scalar _LogicalXorScalar
mx_operators.elementwise.unary
    smooth_l1 : _backward_smooth_l1 _backward_backward_smooth_l1
    _contrib_quadratic : _backward__contrib_quadratic _backward_backward__contrib_quadratic
    clip : _backward_clip _backward_backward_clip
    hard_sigmoid : _backward_hard_sigmoid _backward_backward_hard_sigmoid
    _copy identity : _backward__copy _backward_backward__copy
    negative : _backward_negative _backward_backward_negative
    abs : _backward_abs _backward_backward_abs
    reciprocal : _backward_reciprocal _backward_backward_reciprocal
    square : _backward_square _backward_backward_square
    sqrt : _backward_sqrt _backward_backward_sqrt
    rsqrt : _backward_rsqrt _backward_backward_rsqrt
    cbrt : _backward_cbrt _backward_backward_cbrt
    rcbrt : _backward_rcbrt _backward_backward_rcbrt
    exp : _backward_exp _backward_backward_exp
    expm1 : _backward_expm1 _backward_backward_expm1
    log : _backward_log _backward_backward_log
    log10 : _backward_log10 _backward_backward_log10
    log2 : _backward_log2 _backward_backward_log2
    log1p : _backward_log1p _backward_backward_log1p
    sin : _backward_sin _backward_backward_sin
    cos : _backward_cos _backward_backward_cos
    tan : _backward_tan _backward_backward_tan
    arcsin : _backward_arcsin _backward_backward_arcsin
    arccos : _backward_arccos _backward_backward_arccos
    arctan : _backward_arctan _backward_backward_arctan
    sinh : _backward_sinh _backward_backward_sinh
    cosh : _backward_cosh _backward_backward_cosh
    tanh : _backward_tanh _backward_backward_tanh
    arcsinh : _backward_arcsinh _backward_backward_arcsinh
    arccosh : _backward_arccosh _backward_backward_arccosh
    arctanh : _backward_arctanh _backward_backward_arctanh
    degrees : _backward_degrees _backward_backward_degrees
    radians : _backward_radians _backward_backward_radians
    erf : _backward_erf _backward_backward_erf
    erfinv : _backward_erfinv _backward_backward_erfinv
    gamma : _backward_gamma _backward_backward_gamma
    gammaln : _backward_gammaln _backward_backward_gammaln
    digamma : _backward_digamma _backward_backward_digamma
    sigmoid : _backward_sigmoid _backward_backward_sigmoid
    softsign : _backward_softsign _backward_backward_softsign
    relu : _backward_relu _backward_backward_relu
    sign
    round
    rint
    ceil
    floor
    trunc
    fix
    logical_not
mx_operators.image.color
    _image_random_brightness _npx__image_random_brightness
    _image_random_contrast _npx__image_random_contrast
    _image_random_saturation _npx__image_random_saturation
    _image_random_hue _npx__image_random_hue
    _image_random_color_jitter _npx__image_random_color_jitter
    _image_adjust_lighting _npx__image_adjust_lighting
    _image_random_lighting _npx__image_random_lighting
mx_operators.image.convert
    _image_to_tensor _npx__image_to_tensor
    _image_normalize _npx__image_normalize : _backward_image_normalize
mx_operators.image.geometry
    _image_crop _npx__image_crop : _backward_image_crop
    _image_flip_left_right _npx__image_flip_left_right
    _image_flip_top_bottom _npx__image_flip_top_bottom
    _image_random_flip_left_right _npx__image_random_flip_left_right
    _image_random_flip_top_bottom _npx__image_random_flip_top_bottom
mx_operators.image.resize
    _image_resize _npx__image_resize
mx_operators.linalg.decomposition
    _linalg_gelqf linalg_gelqf : _backward_linalg_gelqf
    _linalg_syevd linalg_syevd : _backward_linalg_syevd
mx_operators.linalg.determinant
    _linalg_inverse linalg_inverse
    _linalg_det linalg_det : _backward_linalg_det
    _linalg_slogdet linalg_slogdet : _backward_linalg_slogdet
mx_operators.linalg.diagonals
    _linalg_extractdiag linalg_extractdiag
    _linalg_makediag linalg_makediag
    _linalg_extracttrian linalg_extracttrian
    _linalg_maketrian linalg_maketrian
mx_operators.linalg.factor
    _linalg_potrf linalg_potrf : _backward_linalg_potrf
    _linalg_sumlogdiag linalg_sumlogdiag : _backward_linalg_sumlogdiag
mx_operators.linalg.khatri_rao
    khatri_rao
mx_operators.linalg.products
    dot : _backward_dot
    batch_dot
    _linalg_gemm2 linalg_gemm2
    _linalg_gemm linalg_gemm
    _linalg_syrk linalg_syrk
mx_operators.linalg.triangular
    _linalg_trmm linalg_trmm
    _linalg_trsm linalg_trsm
    _linalg_potri linalg_potri
mx_operators.loss.ctc
    CTCLoss ctc_loss _contrib_CTCLoss _contrib_ctc_loss : _backward_CTCLoss
mx_operators.loss.make_loss
    MakeLoss : _backward_MakeLoss
    make_loss
    BlockGrad stop_gradient
    softmax_cross_entropy : _backward_softmax_cross_entropy
mx_operators.loss.regression
    LinearRegressionOutput : _backward_LinearRegressionOutput
    LogisticRegressionOutput : _backward_LogisticRegressionOutput
    MAERegressionOutput : _backward_MAERegressionOutput
    SVMOutput : _backward_SVMOutput
mx_operators.loss.softmax_output
    SoftmaxOutput Softmax : _backward_SoftmaxOutput
mx_operators.loss.sparse_activation
    IdentityAttachKLSparseReg : _backward_IdentityAttachKLSparseReg
mx_operators.nn.attention
    _contrib_interleaved_matmul_selfatt_qk : _backward_contrib_interleaved_matmul_selfatt_qk
    _contrib_interleaved_matmul_selfatt_valatt : _backward_contrib_interleaved_matmul_selfatt_valatt
    _contrib_interleaved_matmul_encdec_qk : _backward_contrib_interleaved_matmul_encdec_qk
    _contrib_interleaved_matmul_encdec_valatt : _backward_contrib_interleaved_matmul_encdec_valatt
    _contrib_div_sqrt_dim
mx_operators.nn.convolution
    Convolution Convolution_v1 : _backward_Convolution
mx_operators.nn.deconvolution
    Deconvolution : _backward_Deconvolution
mx_operators.nn.dropout
    Dropout
mx_operators.nn.embedding
    Embedding : _backward_Embedding
mx_operators.nn.fully_connected
    FullyConnected : _backward_FullyConnected
mx_operators.nn.norm.batch_norm
    BatchNorm BatchNorm_v1 : _backward_BatchNorm
mx_operators.nn.norm.group_norm
    GroupNorm : _backward_GroupNorm
mx_operators.nn.norm.instance_norm
    InstanceNorm : _backward_InstanceNorm
mx_operators.nn.norm.layer_norm
    LayerNorm : _backward_LayerNorm
mx_operators.nn.norm.lrn
    LRN : _backward_LRN
mx_operators.nn.pooling
    Pooling Pooling_v1 : _backward_Pooling
mx_operators.nn.softmax
    softmax : _backward_softmax
    softmin : _backward_softmin
    log_softmax : _backward_log_softmax
    SoftmaxActivation : _backward_SoftmaxActivation
mx_operators.optimizer.adagrad
    _sparse_adagrad_update
    _contrib_group_adagrad_update
mx_operators.optimizer.adamw
    _adamw_update
    _mp_adamw_update
mx_operators.optimizer.adaptive
    adam_update
    rmsprop_update
    rmspropalex_update
    ftrl_update
    ftml_update
mx_operators.optimizer.checks
    all_finite
    multi_all_finite
    multi_sum_sq
    reset_arrays
    multi_lars
mx_operators.optimizer.lamb
    lamb_update_phase1
    mp_lamb_update_phase1
    lamb_update_phase2
    mp_lamb_update_phase2
mx_operators.optimizer.mixed
    mp_sgd_update
    mp_sgd_mom_update
    mp_nag_mom_update
mx_operators.optimizer.multi
    multi_sgd_update
    multi_sgd_mom_update
    multi_mp_sgd_update
    multi_mp_sgd_mom_update
mx_operators.optimizer.multi_lamb
    _multi_lamb_update
    _multi_mp_lamb_update
mx_operators.optimizer.preloaded
    preloaded_multi_sgd_update
    preloaded_multi_sgd_mom_update
    preloaded_multi_mp_sgd_update
    preloaded_multi_mp_sgd_mom_update
    _preloaded_multi_adam_update
    _multi_adamw_update
    _multi_mp_adamw_update
mx_operators.optimizer.sgd
    sgd_update
    sgd_mom_update
    nag_mom_update
    signsgd_update
    signum_update
mx_operators.random.density
    _random_pdf_uniform random_pdf_uniform : _backward_random_pdf_uniform
    _random_pdf_normal random_pdf_normal : _backward_random_pdf_normal
    _random_pdf_exponential random_pdf_exponential : _backward_random_pdf_exponential
    _random_pdf_gamma random_pdf_gamma : _backward_random_pdf_gamma
    _random_pdf_poisson random_pdf_poisson : _backward_random_pdf_poisson
    _random_pdf_negative_binomial random_pdf_negative_binomial : _backward_random_pdf_negative_binomial
    _random_pdf_generalized_negative_binomial random_pdf_generalized_negative_binomial : _backward_random_pdf_generalized_negative_binomial
    _random_pdf_dirichlet random_pdf_dirichlet : _backward_random_pdf_dirichlet
mx_operators.random.distributions
    _random_gamma random_gamma
    _random_poisson random_poisson
    _random_negative_binomial random_negative_binomial
    _random_generalized_negative_binomial random_generalized_negative_binomial
    _random_gamma_like
    _random_poisson_like
    _random_negative_binomial_like
    _random_generalized_negative_binomial_like
mx_operators.random.draw
    _random_uniform random_uniform uniform
    _random_normal random_normal normal
    _random_exponential random_exponential
    _random_randint random_randint
    _random_uniform_like
    _random_normal_like
    _random_exponential_like
mx_operators.random.sample
    _sample_uniform sample_uniform
    _sample_normal sample_normal
    _sample_exponential sample_exponential
    _sample_gamma sample_gamma
    _sample_poisson sample_poisson
    _sample_negative_binomial sample_negative_binomial
    _sample_generalized_negative_binomial sample_generalized_negative_binomial
mx_operators.random.shuffle
    _shuffle shuffle
    _sample_multinomial sample_multinomial
mx_operators.random.unique
    _sample_unique_zipfian
mx_operators.reduce.extremum
    max max_axis : _backward_extremum
    min min_axis
    _backward_extremum
mx_operators.reduce.moments
    moments : _backward_moments
mx_operators.reduce.norm
    norm : _backward_norm
    L2Normalization : _backward_L2Normalization
mx_operators.reduce.prod
    prod : _backward_prod
    nanprod : _backward_nanprod
mx_operators.reduce.sum
    sum sum_axis : _backward_sum
    mean : _backward_mean
    nansum : _backward_nansum
mx_operators.rnn.param_concat
    _rnn_param_concat
mx_operators.rnn.rnn
    RNN : _backward_RNN
mx_operators.sequence.last
    SequenceLast : _backward_SequenceLast
mx_operators.sequence.mask
    SequenceMask
mx_operators.sequence.reverse
    SequenceReverse
mx_operators.vision.adaptive_pooling
    _contrib_AdaptiveAvgPooling2D : _backward_contrib_AdaptiveAvgPooling2D
mx_operators.vision.bilinear_resize
    _contrib_BilinearResize2D : _backward_contrib_BilinearResize2D
mx_operators.vision.bilinear_sampler
    BilinearSampler : _backward_BilinearSampler
mx_operators.vision.box_codec
    _contrib_box_encode
    _contrib_box_decode
mx_operators.vision.box_iou
    _contrib_box_iou
    _contrib_bipartite_matching
mx_operators.vision.box_nms
    _contrib_box_nms _contrib_box_non_maximum_suppression : _backward_contrib_box_nms
mx_operators.vision.correlation
    Correlation : _backward_Correlation
mx_operators.vision.crop
    Crop : _backward_Crop
mx_operators.vision.deformable_convolution
    _contrib_DeformableConvolution : _backward_contrib_DeformableConvolution
    _contrib_ModulatedDeformableConvolution : _backward_contrib_ModulatedDeformableConvolution
mx_operators.vision.deformable_psroi_pooling
    _contrib_DeformablePSROIPooling : _backward_contrib_DeformablePSROIPooling
mx_operators.vision.grid_generator
    GridGenerator : _backward_GridGenerator
mx_operators.vision.multibox
    _contrib_MultiBoxPrior _npx_multibox_prior
    _contrib_MultiBoxTarget _npx_multibox_target
    _contrib_MultiBoxDetection _npx_multibox_detection
mx_operators.vision.proposal
    _contrib_MultiProposal
    _contrib_Proposal
mx_operators.vision.psroi_pooling
    _contrib_PSROIPooling : _backward_contrib_PSROIPooling
mx_operators.vision.roi_align
    _contrib_ROIAlign : _backward_contrib_ROIAlign
    _contrib_RROIAlign : _backward_contrib_RROIAlign
mx_operators.vision.roi_pooling
    ROIPooling : _backward_ROIPooling
mx_operators.vision.spatial_transformer
    SpatialTransformer
mx_operators.vision.upsampling
    UpSampling : _backward_UpSampling
"""
