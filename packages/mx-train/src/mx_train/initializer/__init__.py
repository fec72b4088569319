# SPDX-License-Identifier: Apache-2.0
"""Initializers: the first values of parameters, chosen by the parameters' names."""

from mx_train.initializer.combined import Load as Load
from mx_train.initializer.combined import Mixed as Mixed
from mx_train.initializer.fill import Bilinear as Bilinear
from mx_train.initializer.fill import Constant as Constant
from mx_train.initializer.fill import MSRAPrelu as MSRAPrelu
from mx_train.initializer.fill import Normal as Normal
from mx_train.initializer.fill import One as One
from mx_train.initializer.fill import Orthogonal as Orthogonal
from mx_train.initializer.fill import Uniform as Uniform
from mx_train.initializer.fill import Xavier as Xavier
from mx_train.initializer.fill import Zero as Zero
from mx_train.initializer.initializer import InitDesc as InitDesc
from mx_train.initializer.initializer import Initializer as Initializer
from mx_train.initializer.initializer import alias as alias
from mx_train.initializer.initializer import create as create
from mx_train.initializer.initializer import register as register
from mx_train.initializer.recurrent import FusedRNN as FusedRNN
from mx_train.initializer.recurrent import LSTMBias as LSTMBias
