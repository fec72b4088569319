# SPDX-License-Identifier: Apache-2.0
"""Handlers of what happens in a training: they update, validate, log, save and stop."""

from mx_gluon.contrib.estimator.event_handler.checkpoint import CheckpointHandler as CheckpointHandler
from mx_gluon.contrib.estimator.event_handler.early_stopping import (
    EarlyStoppingHandler as EarlyStoppingHandler,
)
from mx_gluon.contrib.estimator.event_handler.events import BatchBegin as BatchBegin
from mx_gluon.contrib.estimator.event_handler.events import BatchEnd as BatchEnd
from mx_gluon.contrib.estimator.event_handler.events import EpochBegin as EpochBegin
from mx_gluon.contrib.estimator.event_handler.events import EpochEnd as EpochEnd
from mx_gluon.contrib.estimator.event_handler.events import EventHandler as EventHandler
from mx_gluon.contrib.estimator.event_handler.events import TrainBegin as TrainBegin
from mx_gluon.contrib.estimator.event_handler.events import TrainEnd as TrainEnd
from mx_gluon.contrib.estimator.event_handler.log import LoggingHandler as LoggingHandler
from mx_gluon.contrib.estimator.event_handler.steps import GradientUpdateHandler as GradientUpdateHandler
from mx_gluon.contrib.estimator.event_handler.steps import MetricHandler as MetricHandler
from mx_gluon.contrib.estimator.event_handler.steps import StoppingHandler as StoppingHandler
from mx_gluon.contrib.estimator.event_handler.steps import ValidationHandler as ValidationHandler
