# SPDX-License-Identifier: Apache-2.0
"""Transformations of values and distributions."""

from mx_gluon.probability.transformation.domain_map import biject_to as biject_to
from mx_gluon.probability.transformation.domain_map import domain_map as domain_map
from mx_gluon.probability.transformation.domain_map import transform_to as transform_to
from mx_gluon.probability.transformation.transformation import AbsTransform as AbsTransform
from mx_gluon.probability.transformation.transformation import AffineTransform as AffineTransform
from mx_gluon.probability.transformation.transformation import ComposeTransform as ComposeTransform
from mx_gluon.probability.transformation.transformation import ExpTransform as ExpTransform
from mx_gluon.probability.transformation.transformation import PowerTransform as PowerTransform
from mx_gluon.probability.transformation.transformation import SigmoidTransform as SigmoidTransform
from mx_gluon.probability.transformation.transformation import SoftmaxTransform as SoftmaxTransform
from mx_gluon.probability.transformation.transformation import Transformation as Transformation
from mx_gluon.probability.transformation.transformation import TransformBlock as TransformBlock
