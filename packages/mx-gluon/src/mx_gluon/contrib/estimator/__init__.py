# SPDX-License-Identifier: Apache-2.0
"""Estimator: a training loop, with handlers that are told what happens in it."""

from mx_gluon.contrib.estimator import batch_processor as batch_processor
from mx_gluon.contrib.estimator import estimator as estimator
from mx_gluon.contrib.estimator import event_handler as event_handler
from mx_gluon.contrib.estimator.batch_processor import BatchProcessor as BatchProcessor
from mx_gluon.contrib.estimator.estimator import Estimator as Estimator
from mx_gluon.contrib.estimator.event_handler import BatchBegin as BatchBegin
from mx_gluon.contrib.estimator.event_handler import BatchEnd as BatchEnd
from mx_gluon.contrib.estimator.event_handler import CheckpointHandler as CheckpointHandler
from mx_gluon.contrib.estimator.event_handler import EarlyStoppingHandler as EarlyStoppingHandler
from mx_gluon.contrib.estimator.event_handler import EpochBegin as EpochBegin
from mx_gluon.contrib.estimator.event_handler import EpochEnd as EpochEnd
from mx_gluon.contrib.estimator.event_handler import GradientUpdateHandler as GradientUpdateHandler
from mx_gluon.contrib.estimator.event_handler import LoggingHandler as LoggingHandler
from mx_gluon.contrib.estimator.event_handler import MetricHandler as MetricHandler
from mx_gluon.contrib.estimator.event_handler import StoppingHandler as StoppingHandler
from mx_gluon.contrib.estimator.event_handler import TrainBegin as TrainBegin
from mx_gluon.contrib.estimator.event_handler import TrainEnd as TrainEnd
from mx_gluon.contrib.estimator.event_handler import ValidationHandler as ValidationHandler
