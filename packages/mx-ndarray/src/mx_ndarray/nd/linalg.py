# SPDX-License-Identifier: Apache-2.0
"""Linear algebra on batches of matrices."""

from mx_ndarray.operator_functions import namespace

__getattr__, __dir__ = namespace(__name__, "_linalg_", "linalg_")
