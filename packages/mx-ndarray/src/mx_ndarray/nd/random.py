# SPDX-License-Identifier: Apache-2.0
"""Random arrays under `nd`; the same functions as `mx_ndarray.random`."""

from mx_ndarray.operator_functions import namespace
from mx_ndarray.random import exponential as exponential
from mx_ndarray.random import exponential_like as exponential_like
from mx_ndarray.random import gamma as gamma
from mx_ndarray.random import gamma_like as gamma_like
from mx_ndarray.random import generalized_negative_binomial as generalized_negative_binomial
from mx_ndarray.random import generalized_negative_binomial_like as generalized_negative_binomial_like
from mx_ndarray.random import multinomial as multinomial
from mx_ndarray.random import negative_binomial as negative_binomial
from mx_ndarray.random import negative_binomial_like as negative_binomial_like
from mx_ndarray.random import normal as normal
from mx_ndarray.random import normal_like as normal_like
from mx_ndarray.random import poisson as poisson
from mx_ndarray.random import poisson_like as poisson_like
from mx_ndarray.random import randint as randint
from mx_ndarray.random import randn as randn
from mx_ndarray.random import shuffle as shuffle
from mx_ndarray.random import uniform as uniform
from mx_ndarray.random import uniform_like as uniform_like

__getattr__, __dir__ = namespace(__name__, "_random_", "_sample_")
