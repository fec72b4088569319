# SPDX-License-Identifier: Apache-2.0
"""Optimizers by name, and the updater that applies one."""

from mx_train.optimizer.adaptive import AdaDelta as AdaDelta
from mx_train.optimizer.adaptive import AdaGrad as AdaGrad
from mx_train.optimizer.adaptive import Adam as Adam
from mx_train.optimizer.adaptive import Ftrl as Ftrl
from mx_train.optimizer.adaptive import RMSProp as RMSProp
from mx_train.optimizer.gradient_descent import NAG as NAG
from mx_train.optimizer.gradient_descent import SGD as SGD
from mx_train.optimizer.gradient_descent import Signum as Signum
from mx_train.optimizer.optimizer import Optimizer as Optimizer
from mx_train.optimizer.optimizer import Updater as Updater
from mx_train.optimizer.optimizer import create as create
from mx_train.optimizer.optimizer import get_updater as get_updater
from mx_train.optimizer.optimizer import register as register
