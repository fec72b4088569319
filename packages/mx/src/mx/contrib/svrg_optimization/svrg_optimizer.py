# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib.svrg_optimization.svrg_optimizer`: optimizers for stores that keep mean gradients beside weights."""

from mx_train.optimizer.svrg import _AssignmentOptimizer as _AssignmentOptimizer
from mx_train.optimizer.svrg import _SVRGOptimizer as _SVRGOptimizer

__all__: list[str] = []
