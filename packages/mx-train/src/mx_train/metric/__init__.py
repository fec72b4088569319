# SPDX-License-Identifier: Apache-2.0
"""Evaluation metrics."""

from mx_train.metric.binary import F1 as F1
from mx_train.metric.binary import MCC as MCC
from mx_train.metric.classification import Accuracy as Accuracy
from mx_train.metric.classification import CrossEntropy as CrossEntropy
from mx_train.metric.classification import NegativeLogLikelihood as NegativeLogLikelihood
from mx_train.metric.classification import Perplexity as Perplexity
from mx_train.metric.classification import TopKAccuracy as TopKAccuracy
from mx_train.metric.correlation import PCC as PCC
from mx_train.metric.metric import CompositeEvalMetric as CompositeEvalMetric
from mx_train.metric.metric import CustomMetric as CustomMetric
from mx_train.metric.metric import EvalMetric as EvalMetric
from mx_train.metric.metric import alias as alias
from mx_train.metric.metric import check_label_shapes as check_label_shapes
from mx_train.metric.metric import create as create
from mx_train.metric.metric import np as np
from mx_train.metric.metric import register as register
from mx_train.metric.regression import MAE as MAE
from mx_train.metric.regression import MSE as MSE
from mx_train.metric.regression import RMSE as RMSE
from mx_train.metric.regression import Caffe as Caffe
from mx_train.metric.regression import Loss as Loss
from mx_train.metric.regression import PearsonCorrelation as PearsonCorrelation
from mx_train.metric.regression import Torch as Torch
