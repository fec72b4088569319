# SPDX-License-Identifier: Apache-2.0
"""Layers that normalise by mean and variance: of the batch, of an example, or of a part of one."""

from __future__ import annotations

from typing import Any, ClassVar

from mx_core import dtypes
from mx_gluon.block import HybridBlock
from mx_gluon.parameter.filling import Init


class _BatchNorm(HybridBlock):
    """BatchNorm, with or without relu."""

    _fuse_relu: ClassVar[bool] = False

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Init = "zeros",
        gamma_initializer: Init = "ones",
        running_mean_initializer: Init = "zeros",
        running_variance_initializer: Init = "ones",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs: dict[str, Any] = {
            "axis": axis, "eps": epsilon, "momentum": momentum, "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }  # fmt: skip
        if in_channels != 0:
            self.in_channels = in_channels
        common: dict[str, Any] = {"shape": (in_channels,), "allow_deferred_init": True}
        for name, init, learned in (("gamma", gamma_initializer, scale), ("beta", beta_initializer, center)):
            request = "write" if learned else "null"
            made = self.params.get(name, grad_req=request, init=init, differentiable=learned, **common)
            setattr(self, name, made)
        self.running_mean = self.params.get(
            "running_mean", grad_req="null", init=running_mean_initializer, differentiable=False, **common
        )
        self.running_var = self.params.get(
            "running_var", grad_req="null", init=running_variance_initializer, differentiable=False, **common
        )

    def cast(self, dtype: Any) -> None:
        """Changes the element type; float16 and bfloat16 leave the parameters float32."""
        is_short = dtypes.name(dtypes.code(dtype, "[BatchNorm] cast")) in ("float16", "bfloat16")
        super().cast("float32" if is_short else dtype)

    def hybrid_forward(
        self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any
    ) -> Any:
        """The normalised values; in training the running statistics are updated."""
        norm = F.contrib.BatchNormWithReLU if self._fuse_relu else F.BatchNorm
        return norm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return _shown(self, self._kwargs, (self._reg_params["gamma"].shape or (0,))[0] or None)


class BatchNorm(_BatchNorm):
    """Normalises each channel by its mean and variance over the batch; in inference by running averages of them.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    axis : int
        Of the channels.
    momentum : float
        Share of the old running averages in the new ones.
    epsilon : float
        Is added to the variance.
    center, scale : bool
        Whether beta is added, and gamma multiplied.
    use_global_stats : bool
        Use the running averages in training, too.
    beta_initializer, gamma_initializer, running_mean_initializer, running_variance_initializer
        Initializers or their names.
    in_channels : int
        0 is found out at the first batch.

    Source: Ioffe and Szegedy, Batch Normalization, 2015.
    """


class BatchNormReLU(_BatchNorm):
    """`BatchNorm` followed by relu, as one operator.

    Threads: as `HybridBlock`.
    """

    _fuse_relu = True


class _Affine(HybridBlock):
    """What the layers without running statistics share: gamma and beta."""

    def _add_parameters(
        self, size: int, center: bool, scale: bool, beta_initializer: Init, gamma_initializer: Init
    ) -> None:
        for name, init, learned in (("gamma", gamma_initializer, scale), ("beta", beta_initializer, center)):
            request = "write" if learned else "null"
            made = self.params.get(name, grad_req=request, shape=(size,), init=init, allow_deferred_init=True)
            setattr(self, name, made)


class InstanceNorm(_Affine):
    """Normalises each channel of each example by its mean and variance.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    axis : int
        Of the channels.
    epsilon, center, scale, beta_initializer, gamma_initializer, in_channels : as in `BatchNorm`

    Source: Ulyanov et al., Instance Normalization, 2016.
    """

    def __init__(
        self,
        axis: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = False,
        beta_initializer: Init = "zeros",
        gamma_initializer: Init = "ones",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon = axis, epsilon
        self._add_parameters(in_channels, center, scale, beta_initializer, gamma_initializer)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:
        """The normalised values."""
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        x = x.swapaxes(1, self._axis)
        return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon).swapaxes(1, self._axis)

    def __repr__(self) -> str:
        return _shown(self, self._kwargs, (self._reg_params["gamma"].shape or (0,))[0])


class LayerNorm(_Affine):
    """Normalises along one axis.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    axis : int
        Along which means and variances are taken.
    epsilon, center, scale, beta_initializer, gamma_initializer : as in `BatchNorm`
    in_channels : int
        Size of the axis; 0 is found out at the first batch.

    Source: Ba et al., Layer Normalization, 2016.
    """

    def __init__(
        self,
        axis: int = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Init = "zeros",
        gamma_initializer: Init = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon, self._center, self._scale = axis, epsilon, center, scale
        self._add_parameters(in_channels, center, scale, beta_initializer, gamma_initializer)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        """The normalised values."""
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)

    def __repr__(self) -> str:
        return _shown(self, self._kwargs, (self._reg_params["gamma"].shape or (0,))[0])


class GroupNorm(_Affine):
    """Normalises groups of channels of each example; gamma and beta are per group, as in MXNet.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    num_groups : int
        Into which the channels, axis 1, are divided.
    epsilon, center, scale, beta_initializer, gamma_initializer : as in `BatchNorm`

    Source: Wu and He, Group Normalization, 2018.
    """

    def __init__(
        self,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Init = "zeros",
        gamma_initializer: Init = "ones",
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        self._num_groups, self._epsilon, self._center, self._scale = num_groups, epsilon, center, scale
        self._add_parameters(num_groups, center, scale, beta_initializer, gamma_initializer)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        """The normalised values."""
        return F.GroupNorm(data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon)

    def __repr__(self) -> str:
        return _shown(self, self._kwargs)


_NO_CHANNELS = object()


def _shown(block: HybridBlock, values: dict[str, Any], channels: Any = _NO_CHANNELS) -> str:
    listed = ", ".join(f"{name}={value!r}" for name, value in values.items())
    if channels is not _NO_CHANNELS:
        listed += f", in_channels={channels}"
    return f"{type(block).__name__}({listed})"
