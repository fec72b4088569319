# SPDX-License-Identifier: Apache-2.0
"""The learning curve of a training, as numbers and as a picture."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING

from mx_core.errors import ArgumentError, MXNetError
from mx_core.files import atomic_write
from mx_core.imports import import_by_name

if TYPE_CHECKING:
    from mx_train.model import BatchEndParam

Points = dict[str, list[tuple[int, float]]]


class LearningCurve:
    """Collects the metrics of a training and of its validation, by the number of batches.

    Threads: one at a time.

    Parameters
    ----------
    frequent : int
        Batches between two values of the training.

    Attributes
    ----------
    train, validation : dict
        Name of a metric -> list of (batches, value).

    Raises
    ------
    ArgumentError  `frequent` is below 1

    Examples
    --------
    >>> curve = LearningCurve(frequent=10)
    >>> module.fit(
    ...     data,
    ...     validation,
    ...     batch_end_callback=curve.batch_end,
    ...     eval_end_callback=curve.eval_end,
    ...     num_epoch=5,
    ... )
    >>> curve.save("curve.svg")
    """

    def __init__(self, frequent: int = 1) -> None:
        if frequent < 1:
            raise ArgumentError(f"[LearningCurve] frequent: expected at least 1, got {frequent}")
        self.frequent = frequent
        self.train: Points = {}
        self.validation: Points = {}
        self._batches = 0

    def batch_end(self, param: BatchEndParam) -> None:
        """A `batch_end_callback` of `fit`."""
        self._batches += 1
        if self._batches % self.frequent == 0:
            self._add(self.train, param)

    def eval_end(self, param: BatchEndParam) -> None:
        """An `eval_end_callback` of `fit`."""
        self._add(self.validation, param)

    def _add(self, points: Points, param: BatchEndParam) -> None:
        if param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                points.setdefault(name, []).append((self._batches, float(value)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the numbers (`.csv`), or a picture with one plot per metric (`.svg`, `.png`, `.pdf`); atomically.

        Raises
        ------
        MXNetError  there are no numbers yet; Matplotlib is not installed, which draws pictures
        FileError   the file cannot be written
        """
        names = list(dict.fromkeys([*self.train, *self.validation]))
        if not names:
            raise MXNetError(
                "[LearningCurve.save] there are no numbers yet: give batch_end or eval_end to fit"
            )
        kind = os.fspath(path).rpartition(".")[2].lower()
        content = self._table() if kind == "csv" else self._picture(names, kind)
        with atomic_write(path) as file:
            file.write(content)

    def _table(self) -> bytes:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(("data", "metric", "batches", "value"))
        for data, points in (("train", self.train), ("validation", self.validation)):
            rows.writerows((data, name, step, value) for name, each in points.items() for step, value in each)
        return text.getvalue().encode()

    def _picture(self, names: list[str], kind: str) -> bytes:
        try:
            figures = import_by_name("matplotlib.figure")
        except ImportError as error:
            raise MXNetError(
                "[LearningCurve.save] Matplotlib is not installed, which draws pictures: install mx-train[plot], or "
                "save a .csv file"
            ) from error
        figure = figures.Figure(figsize=(6, 3 * len(names)), layout="constrained")
        for axes, name in zip(figure.subplots(len(names), squeeze=False)[:, 0], names, strict=True):
            for data, points in (("train", self.train), ("validation", self.validation)):
                if name in points:
                    axes.plot(*zip(*points[name], strict=True), label=data, marker=".")
            axes.set_xlabel("batches")
            axes.set_ylabel(name)
            axes.legend()
        made = io.BytesIO()
        try:
            figure.savefig(made, format=kind)
        except ValueError as error:
            raise ArgumentError(f"[LearningCurve.save] path: {error}") from error
        return made.getvalue()
