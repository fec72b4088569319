# SPDX-License-Identifier: Apache-2.0
"""The learning curve and the confusion matrix as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")  # before pyplot is imported: no display is needed
from matplotlib import pyplot


def _axes() -> tuple[Any, Any]:
    return pyplot.subplots(figsize=(6, 4.5), layout="constrained")


def learning_curve(accuracy: Sequence[float], rates: Sequence[float], path: Path) -> None:
    """Validation accuracy per epoch, with the median throughput in the title."""
    figure, axes = _axes()
    axes.plot(range(len(accuracy)), accuracy, marker="o")
    axes.axhline(0.98, linestyle="--", color="gray", linewidth=1)
    axes.set(xlabel="epoch", ylabel="validation accuracy", title=f"digits, {np.median(rates):,.0f} images/s")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def confusion_matrix(labels: Any, predicted: Any, path: Path) -> None:
    """How often each digit was taken for each."""
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (labels, predicted), 1)
    figure, axes = _axes()
    axes.imshow(counts, cmap="Blues")
    for row, column in np.ndindex(*counts.shape):
        if counts[row, column]:
            shade = "white" if counts[row, column] > counts.max() / 2 else "black"
            axes.text(column, row, counts[row, column], ha="center", va="center", color=shade)
    axes.set(xlabel="predicted", ylabel="label", xticks=range(10), yticks=range(10))
    figure.savefig(path, dpi=120)
