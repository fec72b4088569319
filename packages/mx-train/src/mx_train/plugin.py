# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-train: its optimizers, metrics and initializers."""

from __future__ import annotations

from typing import Any

from mx_core import hookimpl

_OPTIMIZERS = (
    "SGD", "NAG", "Signum", "SGLD", "DCASGD", "Adam", "Adamax", "Nadam", "RMSProp", "Ftrl", "FTML", "AdaGrad",
    "AdaDelta", "LAMB", "LARS", "LBSGD", "ccSGD", "GroupAdaGrad", "Test",
)  # fmt: skip
_METRICS: dict[str, tuple[str, ...]] = {
    "Accuracy": ("acc",), "TopKAccuracy": ("top_k_accuracy", "top_k_acc"), "F1": (),
    "CrossEntropy": ("ce", "cross-entropy"), "NegativeLogLikelihood": ("nll_loss", "nll-loss"),
    "Perplexity": (), "MAE": (), "MSE": (), "RMSE": (), "PearsonCorrelation": ("pearsonr",),
    "MCC": (), "PCC": (), "Loss": (), "Torch": (), "Caffe": (), "CompositeEvalMetric": ("composite",),
}  # fmt: skip
_INITIALIZERS: dict[str, tuple[str, ...]] = {
    "Zero": ("zeros",), "One": ("ones",), "Constant": (), "Uniform": (), "Normal": (), "Xavier": (),
    "MSRAPrelu": (), "Orthogonal": (), "Bilinear": (), "LSTMBias": (), "FusedRNN": (),
}  # fmt: skip


@hookimpl
def mx_register_optimizers(registry: Any) -> None:
    """By class name."""
    for name in _OPTIMIZERS:
        registry.add(name.lower(), f"mx_train.optimizer:{name}")


@hookimpl
def mx_register_metrics(registry: Any) -> None:
    """By class name and MXNet's short names."""
    for name, aliases in _METRICS.items():
        registry.add(name.lower(), f"mx_train.metric:{name}", aliases=aliases)


@hookimpl
def mx_register_initializers(registry: Any) -> None:
    """By class name and MXNet's short names."""
    for name, aliases in _INITIALIZERS.items():
        registry.add(name.lower(), f"mx_train.initializer:{name}", aliases=aliases)
