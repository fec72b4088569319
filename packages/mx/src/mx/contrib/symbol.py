# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib.symbol`: the former name of `mx.sym.contrib`."""

import sys as _sys

import mx_symbol.sym.contrib as _contrib

_sys.modules[__name__] = _contrib
