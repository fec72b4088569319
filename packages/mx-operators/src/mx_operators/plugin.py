# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-operators."""

from __future__ import annotations

import importlib
from typing import Any

from mx_core import hookimpl

#: modules with a tuple OPERATORS
MODULES = (
    "elementwise.unary", "elementwise.binary", "elementwise.activation",
    "nn.convolution", "nn.deconvolution", "nn.fully_connected", "nn.pooling", "nn.batch_norm",
    "nn.layer_norm", "nn.softmax", "nn.dropout", "nn.embedding",
    "array.fill", "array.cast", "array.reshape", "array.join", "array.broadcast",
    "array.transpose", "array.slice", "array.index", "array.order", "array.repeat",
    "reduce.sums", "reduce.norm", "linalg.products", "linalg.factor", "linalg.parts",
    "linalg.triangular", "linalg.determinant", "linalg.decomposition",
    "loss.softmax_output", "loss.regression", "loss.make_loss", "loss.sparse_activation",
    "sequence.mask", "sequence.last", "sequence.reverse",
    "rnn.rnn", "rnn.param_concat", "vision.upsampling", "vision.grid_generator", "vision.bilinear_sampler",
    "vision.spatial_transformer", "vision.roi_pooling", "vision.crop", "vision.adaptive_pooling",
    "vision.bilinear_resize", "vision.correlation",
    "random.draw", "random.shuffle", "random.distributions", "random.sample", "random.unique",
    "optimizer.sgd", "optimizer.adaptive", "optimizer.mixed",
    "optimizer.lamb", "optimizer.adamw", "nn.attention", "array.ravel",
    "array.amp", "array.scan", "array.histogram", "array.rows", "reduce.moments", "linalg.khatri_rao",
    "optimizer.checks", "optimizer.preloaded", "optimizer.multi_lamb", "optimizer.adagrad", "random.density",
    "contrib.boolean_mask", "contrib.index", "contrib.allclose", "contrib.straight_through",
    "contrib.columns", "contrib.fourier", "contrib.count_sketch", "contrib.batch_norm", "loss.ctc",
    "contrib.hawkes",
    "vision.box_iou", "vision.box_nms", "vision.box_codec", "vision.multibox", "vision.proposal",
    "vision.roi_align", "vision.psroi_pooling", "vision.deformable_psroi_pooling",
    "vision.deformable_convolution",
    "image.convert", "image.geometry", "image.resize", "image.color",
)  # fmt: skip


@hookimpl
def mx_register_operators(registry: Any) -> None:
    """Every operator declared here; backward operators come along with them."""
    for name in MODULES:
        for operator in importlib.import_module(f"mx_operators.{name}").OPERATORS:
            registry.add(operator)
