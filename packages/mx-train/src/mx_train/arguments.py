# SPDX-License-Identifier: Apache-2.0
"""Types of the arguments that several functions of training take."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from mx_io.io import DataDesc
from mx_kvstore import KVStoreBase
from mx_ndarray import NDArray
from mx_train.metric import EvalMetric
from mx_train.optimizer import Optimizer

#: a logger, or the module `logging`
Logger = logging.Logger | ModuleType
#: a function that training calls; what it returns is not used
Callback = Callable[..., object]
Callbacks = Callback | Sequence[Callback] | None
#: a metric, its name, a function of labels and predictions, a config, or a list of these
Metric = EvalMetric | str | Callable[..., Any] | Mapping[str, Any] | Sequence[Any]
Store = KVStoreBase | str | None
OptimizerLike = Optimizer | str
#: arguments of an optimizer
Settings = Mapping[str, Any] | Sequence[tuple[str, Any]]
#: names and shapes of inputs
Shapes = Sequence[DataDesc | tuple[str, Sequence[int]]]
Gradients = NDArray | Sequence[NDArray] | None
#: fills an array, whose parameter has a name
Filler = Callable[[str, NDArray], None]
