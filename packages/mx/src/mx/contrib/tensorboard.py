# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib.tensorboard`: metrics of a training for TensorBoard."""

import sys as _sys

from mx.absent import explain as _explain
from mx_train.tensorboard import LogMetricsCallback as LogMetricsCallback

__all__ = ["LogMetricsCallback"]

_explain(_sys.modules[__name__], [__name__])
