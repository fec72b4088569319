# SPDX-License-Identifier: Apache-2.0
"""PandasLogger: metrics and speed of a training as tables."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError
from mx_train.notebook import optional

if TYPE_CHECKING:
    from mx_train.model import BatchEndParam

TABLES = ("train", "eval", "epoch")


class PandasLogger:
    """Keeps metrics, speed and time of a training as tables of pandas.

    `fit(..., **logger.callback_args())` fills three tables: a row of `train` every `frequent` batches, one of `eval`
    after each validation and one of `epoch` after each epoch.

    Threads: one at a time.

    Parameters
    ----------
    batch_size : int
        Examples in a batch, for the column `records_per_sec`.
    frequent : int
        Batches between two rows of `train`.

    Raises
    ------
    ArgumentError  `frequent` is below 1
    MXNetError     pandas is not installed

    Examples
    --------
    >>> logger = PandasLogger(batch_size=32, frequent=10)
    >>> module.fit(data, validation, num_epoch=5, **logger.callback_args())
    >>> logger.train_df[["minibatch_count", "accuracy"]]
    """

    def __init__(self, batch_size: int, frequent: int = 50) -> None:
        if frequent < 1:
            raise ArgumentError(f"[PandasLogger] frequent: expected at least 1, got {frequent}")
        self._pandas = optional.pandas("PandasLogger")
        self.batch_size = batch_size
        self.frequent = frequent
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self._start = self._last = self._last_epoch = time.perf_counter()

    @property
    def train_df(self) -> Any:
        """A `pandas.DataFrame`: metrics of the batches since the row before, and the speed."""
        return self.all_dataframes["train"]

    @property
    def eval_df(self) -> Any:
        """A `pandas.DataFrame`: metrics of validations."""
        return self.all_dataframes["eval"]

    @property
    def epoch_df(self) -> Any:
        """A `pandas.DataFrame`: the time of each epoch."""
        return self.all_dataframes["epoch"]

    @property
    def all_dataframes(self) -> dict[str, Any]:
        """The three tables by name; copies."""
        return {name: self._pandas.DataFrame(rows) for name, rows in self._rows.items()}

    def elapsed(self) -> datetime.timedelta:
        """Time since the logger was made."""
        return datetime.timedelta(seconds=time.perf_counter() - self._start)

    def append_metrics(self, metrics: Mapping[str, Any], df_name: str) -> None:
        """Adds a row to a table: `train`, `eval` or `epoch`; new columns may come with any row.

        Raises
        ------
        ArgumentError  there is no such table
        """
        if df_name not in self._rows:
            raise ArgumentError(
                f"[PandasLogger] df_name: expected one of {', '.join(TABLES)}, got {df_name!r}"
            )
        self._rows[df_name].append(dict(metrics))

    def train_cb(self, param: BatchEndParam) -> None:
        """A `batch_end_callback` of `fit`."""
        if param.nbatch % self.frequent == 0:
            self._add(param, "train")

    def eval_cb(self, param: BatchEndParam) -> None:
        """An `eval_end_callback` of `fit`."""
        self._add(param, "eval")

    def _add(self, param: BatchEndParam, name: str) -> None:
        now = time.perf_counter()
        row: dict[str, Any] = {}
        if param.eval_metric is not None:
            row = dict(param.eval_metric.get_name_value())
            param.eval_metric.reset_local()
        per_second = self.frequent / max(now - self._last, 1e-9)
        row["batches_per_sec"] = per_second
        row["records_per_sec"] = per_second * self.batch_size
        row["elapsed"] = self.elapsed()
        row["minibatch_count"] = param.nbatch
        row["epoch"] = param.epoch
        self.append_metrics(row, name)
        self._last = now

    def epoch_cb(self, *_: Any) -> None:
        """An `epoch_end_callback` of `fit`."""
        now = time.perf_counter()
        took = datetime.timedelta(seconds=now - self._last_epoch)
        self.append_metrics({"elapsed": self.elapsed(), "epoch_time": took}, "epoch")
        self._last_epoch = now

    def callback_args(self) -> dict[str, Callable[..., None]]:
        """Arguments of `fit` that fill the tables."""
        return {
            "batch_end_callback": self.train_cb,
            "eval_end_callback": self.eval_cb,
            "epoch_end_callback": self.epoch_cb,
        }
