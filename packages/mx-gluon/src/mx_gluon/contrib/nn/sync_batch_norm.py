# SPDX-License-Identifier: Apache-2.0
"""BatchNorm over the batches of several contexts together."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

from mx_core.context import num_gpus
from mx_core.forks import ForkSafeLock
from mx_core.weak import WeakTable
from mx_gluon.nn.normalization import BatchNorm
from mx_gluon.parameter.filling import Init

_lock = ForkSafeLock()
_layers: WeakTable[str, SyncBatchNorm] = WeakTable()


def _unique_key(layer: SyncBatchNorm) -> str:
    """The prefix, or one with a number where another layer of the process has it: names are counted per thread."""
    prefix = layer.prefix
    numbered = (f"{prefix}#{number}" for number in itertools.count(1))
    with _lock:
        key = next(key for key in itertools.chain([prefix], numbered) if _layers.get(key) is None)
        _layers[key] = layer
    return key


class SyncBatchNorm(BatchNorm):
    """`BatchNorm` whose mean and variance are those of the batches of all contexts together.

    In training a context waits until all others have computed the layer: the block is called on each of them before
    anything of the results is waited for. A context that does not come within `MX_SYNC_TIMEOUT` seconds is an error.
    In inference nothing waits.

    Threads: as `HybridBlock`; the calls of one step may come from several.

    Parameters
    ----------
    in_channels : int
        Size of axis 1; 0 is found out at the first batch.
    num_devices : int, optional
        How many contexts there are; by default the number of GPUs, at least 1, which warns.
    momentum, epsilon, center, scale, use_global_stats : as in `BatchNorm`
    beta_initializer, gamma_initializer, running_mean_initializer, running_variance_initializer
        Initializers or their names.

    Source: Zhang et al., Context Encoding for Semantic Segmentation, CVPR 2018.
    """

    def __init__(
        self,
        in_channels: int = 0,
        num_devices: int | None = None,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Init = "zeros",
        gamma_initializer: Init = "ones",
        running_mean_initializer: Init = "zeros",
        running_variance_initializer: Init = "ones",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            1, momentum, epsilon, center, scale, use_global_stats, beta_initializer, gamma_initializer,
            running_mean_initializer, running_variance_initializer, in_channels, **kwargs,
        )  # fmt: skip
        if num_devices is None:
            num_devices = max(num_gpus(), 1)
            warnings.warn(
                f"[{self.name}] num_devices: {num_devices} by the number of GPUs; give it for other contexts",
                stacklevel=2,
            )
        self._kwargs = {
            "eps": epsilon, "momentum": momentum, "fix_gamma": not scale, "use_global_stats": use_global_stats,
            "ndev": num_devices, "key": self.prefix if num_devices == 1 else _unique_key(self),
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self._kwargs["ndev"] > 1:  # a copy is another layer
            self._kwargs = {**self._kwargs, "key": _unique_key(self)}

    def hybrid_forward(
        self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any
    ) -> Any:
        """The normalised values; in training the running statistics are updated."""
        return F.contrib.SyncBatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)
