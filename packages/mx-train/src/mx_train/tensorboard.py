# SPDX-License-Identifier: Apache-2.0
"""Metrics of a training for TensorBoard."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mx_core.errors import MXNetError
from mx_core.imports import import_by_name

if TYPE_CHECKING:
    from mx_train.model import BatchEndParam


def _writer(folder: str | os.PathLike[str]) -> Any:
    try:
        tensorboard = import_by_name("tensorboardX")
    except ImportError as error:
        raise MXNetError(
            "[LogMetricsCallback] tensorboardX is not installed, which writes the files of TensorBoard: install "
            "mx-train[tensorboard]"
        ) from error
    return tensorboard.SummaryWriter(os.fspath(folder))


class LogMetricsCallback:
    """Writes the metrics of a training, or of its validation, for TensorBoard; each epoch is a step.

    As a `batch_end_callback` it writes after each batch; as an `eval_end_callback` after each validation.

    Threads: one at a time.

    Parameters
    ----------
    logging_dir : path
        The folder that TensorBoard shows. Two callbacks with one folder need different prefixes.
    prefix : str, optional
        Written before the names of the metrics: `"train"` makes `train-accuracy`.

    Attributes
    ----------
    summary_writer : tensorboardX.SummaryWriter
        Which writes more than metrics if it is asked to. `close` it at the end.

    Raises
    ------
    MXNetError  tensorboardX is not installed
    """

    def __init__(self, logging_dir: str | os.PathLike[str], prefix: str | None = None) -> None:
        self.prefix = prefix
        self.summary_writer = _writer(logging_dir)

    def __call__(self, param: BatchEndParam) -> None:
        """After a batch, or a validation."""
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            shown = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(shown, value, global_step=param.epoch)
