# SPDX-License-Identifier: Apache-2.0
"""Initializers that fill one array: constants, distributions, spreads by fan, orthogonal and bilinear weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd, random
from mx_train.initializer.initializer import Initializer


class Zero(Initializer):
    """0."""

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0


class One(Initializer):
    """1."""

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 1.0


class Constant(Initializer):
    """One value for all, or an array (or nested lists) that is broadcast to the parameter's shape."""

    def __init__(self, value: Any) -> None:
        array = value.asnumpy() if isinstance(value, NDArray) else value
        super().__init__(value=array.tolist() if isinstance(array, np.ndarray) else array)
        self.value = value

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = np.asarray(self.value, arr.dtype) if isinstance(self.value, (list, tuple)) else self.value


class Uniform(Initializer):
    """Uniform in [−scale, scale)."""

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name: str, arr: NDArray) -> None:
        _fill("uniform", -self.scale, self.scale, arr)


class Normal(Initializer):
    """Normal with standard deviation sigma."""

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name: str, arr: NDArray) -> None:
        _fill("normal", 0.0, self.sigma, arr)


class Xavier(Initializer):
    """Spread √(magnitude / fan), so that activations keep their variance.

    Parameters
    ----------
    rnd_type : {"uniform", "gaussian"}
    factor_type : {"avg", "in", "out"}
        Which fan: inputs or outputs of a unit, or their average.

    Source: Glorot and Bengio, Understanding the difficulty of training, AISTATS 2010.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        if rnd_type not in ("uniform", "gaussian"):
            raise ArgumentError(f"[Xavier] rnd_type: expected uniform or gaussian, got {rnd_type!r}")
        if factor_type not in ("avg", "in", "out"):
            raise ArgumentError(f"[Xavier] factor_type: expected avg, in or out, got {factor_type!r}")
        self.rnd_type, self.factor_type, self.magnitude = rnd_type, factor_type, float(magnitude)

    def _init_weight(self, name: str, arr: NDArray) -> None:
        shape = arr.shape
        if len(shape) < 2:
            raise ArgumentError(
                f"[{type(self).__name__}] {name!r}: expected at least 2 dimensions, got {shape}"
            )
        positions = math.prod(shape[2:])
        fan_in, fan_out = shape[1] * positions, shape[0] * positions
        fan = {"avg": (fan_in + fan_out) / 2, "in": fan_in, "out": fan_out}[self.factor_type]
        scale = math.sqrt(self.magnitude / max(fan, 1))
        if self.rnd_type == "uniform":
            _fill("uniform", -scale, scale, arr)
        else:
            _fill("normal", 0.0, scale, arr)


class MSRAPrelu(Xavier):
    """Gaussian with variance 2 / ((1 + slope²) · fan).

    Source: He et al., Delving Deep into Rectifiers, ICCV 2015, equation 14.
    """

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


class Orthogonal(Initializer):
    """An orthogonal matrix, scaled.

    Source: Saxe, McClelland and Ganguli, Exact solutions to the nonlinear dynamics, ICLR 2014.
    """

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale, self.rand_type = scale, rand_type

    def _init_weight(self, name: str, arr: NDArray) -> None:
        rows, columns = arr.shape[0], math.prod(arr.shape[1:])
        draw = nd.zeros((rows, columns))
        low, high = (-1.0, 1.0) if self.rand_type == "uniform" else (0.0, 1.0)
        _fill(self.rand_type, low, high, draw)
        u, _, v = np.linalg.svd(draw.asnumpy(), full_matrices=False)
        q = u if u.shape == (rows, columns) else v
        arr[:] = nd.array(self.scale * q.reshape(arr.shape))


class Bilinear(Initializer):
    """Weights of an upsampling Deconvolution that interpolates bilinearly."""

    def _init_weight(self, name: str, arr: NDArray) -> None:
        self._init_bilinear(name, arr)


def _fill(kind: str, a: float, b: float, arr: NDArray) -> None:
    draw = random.uniform if kind == "uniform" else random.normal
    draw(a, b, shape=arr.shape, dtype=arr.dtype, ctx=arr.context, out=arr)
