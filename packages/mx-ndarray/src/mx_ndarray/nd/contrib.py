# SPDX-License-Identifier: Apache-2.0
"""Operators of networks that never became part of MXNet's core set."""

from mx_ndarray.operator_functions import namespace

__getattr__, __dir__ = namespace(__name__, "_contrib_")
