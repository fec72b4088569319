# SPDX-License-Identifier: Apache-2.0
"""Losses: one number per example from predictions and labels."""

from mx_gluon.loss.classification import KLDivLoss as KLDivLoss
from mx_gluon.loss.classification import LogisticLoss as LogisticLoss
from mx_gluon.loss.classification import SigmoidBCELoss as SigmoidBCELoss
from mx_gluon.loss.classification import SigmoidBinaryCrossEntropyLoss as SigmoidBinaryCrossEntropyLoss
from mx_gluon.loss.classification import SoftmaxCELoss as SoftmaxCELoss
from mx_gluon.loss.classification import SoftmaxCrossEntropyLoss as SoftmaxCrossEntropyLoss
from mx_gluon.loss.loss import Loss as Loss
from mx_gluon.loss.loss import _apply_weighting as _apply_weighting
from mx_gluon.loss.loss import _reshape_like as _reshape_like
from mx_gluon.loss.margin import HingeLoss as HingeLoss
from mx_gluon.loss.margin import SquaredHingeLoss as SquaredHingeLoss
from mx_gluon.loss.margin import TripletLoss as TripletLoss
from mx_gluon.loss.regression import HuberLoss as HuberLoss
from mx_gluon.loss.regression import L1Loss as L1Loss
from mx_gluon.loss.regression import L2Loss as L2Loss
from mx_gluon.loss.regression import PoissonNLLLoss as PoissonNLLLoss
from mx_gluon.loss.sequence import CTCLoss as CTCLoss
from mx_gluon.loss.similarity import CosineEmbeddingLoss as CosineEmbeddingLoss
from mx_gluon.loss.similarity import SDMLLoss as SDMLLoss
