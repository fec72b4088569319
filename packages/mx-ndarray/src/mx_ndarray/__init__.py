# SPDX-License-Identifier: Apache-2.0
"""Asynchronous NDArray, imperative invocation and autograd."""

from mx_ndarray import _setup as _setup
from mx_ndarray import autograd as autograd
from mx_ndarray import nd as nd
from mx_ndarray import random as random
from mx_ndarray._core import invoke_capsule as invoke_capsule
from mx_ndarray._core import waitall as waitall
from mx_ndarray.invocation import prepare_call as prepare_call
from mx_ndarray.ndarray import NDArray as NDArray
from mx_ndarray.scheduling import priority as priority

__version__ = "0.1.0"
