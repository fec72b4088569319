# SPDX-License-Identifier: Apache-2.0
"""Parameters of blocks: their values and gradients on every context, and dictionaries of them."""

from mx_gluon.errors import DeferredInitializationError as DeferredInitializationError
from mx_gluon.parameter.constant import Constant as Constant
from mx_gluon.parameter.dictionary import ParameterDict as ParameterDict
from mx_gluon.parameter.parameter import Parameter as Parameter
from mx_gluon.parameter.parameter import tensor_types as tensor_types
