# SPDX-License-Identifier: Apache-2.0
"""Optimizers by name, and the updater that applies one."""

from mx_train.optimizer.adaptive import FTML as FTML
from mx_train.optimizer.adaptive import AdaDelta as AdaDelta
from mx_train.optimizer.adaptive import AdaGrad as AdaGrad
from mx_train.optimizer.adaptive import Adam as Adam
from mx_train.optimizer.adaptive import Adamax as Adamax
from mx_train.optimizer.adaptive import Ftrl as Ftrl
from mx_train.optimizer.adaptive import Nadam as Nadam
from mx_train.optimizer.adaptive import RMSProp as RMSProp
from mx_train.optimizer.base import Optimizer as Optimizer
from mx_train.optimizer.base import Updater as Updater
from mx_train.optimizer.base import create as create
from mx_train.optimizer.base import get_updater as get_updater
from mx_train.optimizer.base import register as register
from mx_train.optimizer.contrib import GroupAdaGrad as GroupAdaGrad
from mx_train.optimizer.gradient_descent import DCASGD as DCASGD
from mx_train.optimizer.gradient_descent import NAG as NAG
from mx_train.optimizer.gradient_descent import SGD as SGD
from mx_train.optimizer.gradient_descent import SGLD as SGLD
from mx_train.optimizer.gradient_descent import Signum as Signum
from mx_train.optimizer.gradient_descent import Test as Test
from mx_train.optimizer.large_batch import LBSGD as LBSGD
from mx_train.optimizer.large_batch import ccSGD as ccSGD
from mx_train.optimizer.layerwise import LAMB as LAMB
from mx_train.optimizer.layerwise import LARS as LARS
