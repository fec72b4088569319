# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib.nd`: the former name of `mx.nd.contrib`."""

import sys as _sys

import mx_ndarray.nd.contrib as _contrib

_sys.modules[__name__] = _contrib
