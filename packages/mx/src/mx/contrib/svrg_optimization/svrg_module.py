# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib.svrg_optimization.svrg_module`: a Module whose gradients vary less."""

from mx_train.module.svrg_module import SVRGModule as SVRGModule

__all__ = ["SVRGModule"]
