# SPDX-License-Identifier: Apache-2.0
"""Operators of MXNet's `contrib` namespace; loops and branches."""

from mx_ndarray.contrib_functions import adamw_update as adamw_update
from mx_ndarray.contrib_functions import mp_adamw_update as mp_adamw_update
from mx_ndarray.contrib_functions import multi_adamw_update as multi_adamw_update
from mx_ndarray.contrib_functions import multi_lamb_update as multi_lamb_update
from mx_ndarray.contrib_functions import multi_mp_adamw_update as multi_mp_adamw_update
from mx_ndarray.contrib_functions import multi_mp_lamb_update as multi_mp_lamb_update
from mx_ndarray.contrib_functions import rand_zipfian as rand_zipfian
from mx_ndarray.control_flow import cond as cond
from mx_ndarray.control_flow import foreach as foreach
from mx_ndarray.control_flow import isfinite as isfinite
from mx_ndarray.control_flow import isinf as isinf
from mx_ndarray.control_flow import isnan as isnan
from mx_ndarray.control_flow import while_loop as while_loop
from mx_ndarray.operator_functions import namespace

__getattr__, __dir__ = namespace(__name__, "_contrib_")
