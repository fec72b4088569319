# SPDX-License-Identifier: Apache-2.0
"""`mx.notebook.callback`: what `fit` calls to keep tables and draw in a notebook."""

from __future__ import annotations

from typing import Any

from mx_train.notebook.charts import LiveBokehChart as LiveBokehChart
from mx_train.notebook.charts import LiveLearningCurve as LiveLearningCurve
from mx_train.notebook.charts import LiveTimeSeries as LiveTimeSeries
from mx_train.notebook.table import PandasLogger as PandasLogger


def args_wrapper(*args: Any) -> dict[str, list[Any]]:
    """The arguments of `fit` for several loggers and charts together.

    Parameters
    ----------
    *args
        Objects with `callback_args`.

    Examples
    --------
    >>> module.fit(data, num_epoch=5, **args_wrapper(logger, curve))
    """
    together: dict[str, list[Any]] = {}
    for each in args:
        for name, callback in each.callback_args().items():
            together.setdefault(name, []).append(callback)
    return together
