# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib.svrg_optimization`: a Module whose gradients vary less."""

import sys as _sys

from mx.absent import explain as _explain
from mx.contrib.svrg_optimization import svrg_module as svrg_module
from mx.contrib.svrg_optimization import svrg_optimizer as svrg_optimizer

__all__ = ["svrg_module", "svrg_optimizer"]

_explain(_sys.modules[__name__], [__name__])
