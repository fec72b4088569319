# SPDX-License-Identifier: Apache-2.0
"""Operators on images (height, width, channel) and batches of them."""

from mx_ndarray.operator_functions import namespace

__getattr__, __dir__ = namespace(__name__, "_image_")
