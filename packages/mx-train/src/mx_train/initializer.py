# SPDX-License-Identifier: Apache-2.0
"""First values of parameters, chosen by their names."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd, random
from mx_train.registry import Named

_family: Named[Initializer] = Named("initializers", "initializer")
register = _family.register


class InitDesc(str):
    """Name of a parameter, with the attributes of its variable.

    Threads: any; it never changes.

    Attributes
    ----------
    attrs : mapping of str to str
        `__init__` names an initializer of its own.
    global_init : Initializer or None
        What applies when the attributes say nothing.
    """

    attrs: Mapping[str, str]
    global_init: Initializer | None

    def __new__(
        cls, name: str, attrs: Mapping[str, str] | None = None, global_init: Initializer | None = None
    ) -> InitDesc:
        """A str with attributes."""
        made = super().__new__(cls, name)
        made.attrs = attrs or {}
        made.global_init = global_init
        return made


class Initializer:
    """Fills arrays by the ending of their names; a subclass says what a `weight` gets.

    bias, beta, running and moving means get 0; gamma and variances 1.

    Threads: any; two must not fill one array.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print: Callable[[NDArray], Any] = _mean_norm

    def set_verbosity(
        self, verbose: bool = False, print_func: Callable[[NDArray], Any] | None = None
    ) -> Initializer:
        """Whether every array that is filled is logged.

        Parameters
        ----------
        print_func : callable, optional
            From an array to what the log shows; by default the root of the mean square.
        """
        self._verbose, self._print = verbose, print_func or _mean_norm
        return self

    def dumps(self) -> str:
        """JSON `[name, arguments]`, as the attribute `__init__` holds it."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, desc: str, arr: NDArray) -> None:
        """Fills `arr`, whose parameter is called `desc`.

        Raises
        ------
        ArgumentError  the name has none of the known endings
        """
        own = getattr(desc, "attrs", {}).get("__init__", "")
        used: Initializer = getattr(desc, "global_init", None) or self
        if own:
            used = create(own)
            used._init_weight(desc, arr)
        else:
            used._by_name(desc, arr)
        if self._verbose:
            logging.info("Initialized %s as %s: %s", desc, type(used).__name__.lower(), self._print(arr))

    def _by_name(self, name: str, arr: NDArray) -> None:
        for ending, method in (
            ("weight", self._init_weight), ("bias", self._init_bias), ("gamma", self._init_one),
            ("beta", self._init_zero), ("min", self._init_zero), ("max", self._init_one),
            ("mean", self._init_zero), ("moving_inv_var", self._init_zero), ("var", self._init_one),
            ("moving_avg", self._init_zero),
        ):  # fmt: skip
            if name.endswith(ending):
                method(name, arr)
                return
        raise ArgumentError(
            f"[{type(self).__name__}] {name!r} ends in none of weight, bias, gamma, beta, mean, var; "
            "name it so, give the variable an init=…, or use initializer.Mixed"
        )

    def _init_weight(self, name: str, arr: NDArray) -> None:
        raise NotImplementedError

    def _init_bias(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_zero(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_one(self, name: str, arr: NDArray) -> None:
        arr[:] = 1.0

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._kwargs == self._kwargs

    __hash__ = None  # type: ignore[assignment]  # Python's way to say that there is none


def create(name: str | Initializer, **kwargs: Any) -> Initializer:
    """An initializer by name, or as JSON that `dumps` wrote."""
    if isinstance(name, str) and name.startswith("["):
        found, arguments = json.loads(name)
        return _family.create(found, **arguments)
    return _family.create(name, **kwargs)


class Zero(Initializer):
    """0."""

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0


class One(Initializer):
    """1."""

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 1.0


class Constant(Initializer):
    """One value (or array) for all."""

    def __init__(self, value: Any) -> None:
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = self.value


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
        width = arr.shape[3]
        f = math.ceil(width / 2)
        c = (2 * f - 1 - f % 2) / (2.0 * f)
        line = 1 - np.abs(np.arange(width) / f - c)
        arr[:] = nd.array(np.broadcast_to(np.outer(line, line), arr.shape).astype(np.float32))


class LSTMBias(Initializer):
    """0, but forget_bias for the forget gate's quarter."""

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, arr: NDArray) -> None:
        values = np.zeros(arr.shape, np.float32)
        quarter = arr.shape[0] // 4
        values[quarter : 2 * quarter] = self.forget_bias
        arr[:] = nd.array(values)


#: endings of the names of the gates' parameters, in the order of the array of all parameters
GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"), "gru": ("_r", "_z", "_o")}


class FusedRNN(Initializer):
    """The one array of parameters of `RNN`: weights and biases of each gate by an initializer of their own names.

    Parameters
    ----------
    init : Initializer or str, optional
        For the weights; by default the one that fills everything else.
    num_hidden, num_layers, mode, bidirectional
        As of the operator.
    forget_bias : float
        Both biases of the forget gates of an LSTM, which are added.
    """

    def __init__(
        self,
        init: Initializer | str | None,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        if mode not in GATES:
            raise ArgumentError(f"[FusedRNN] mode: expected one of {', '.join(GATES)}, got {mode!r}")
        self._weights = create(init) if isinstance(init, str) else init
        super().__init__(
            init=None if self._weights is None else self._weights.dumps(), num_hidden=num_hidden,
            num_layers=num_layers, mode=mode, bidirectional=bidirectional, forget_bias=forget_bias,
        )  # fmt: skip
        self._hidden, self._layers, self._mode = num_hidden, num_layers, mode
        self._directions, self._forget_bias = (2 if bidirectional else 1), forget_bias

    def _init_weight(self, name: str, arr: NDArray) -> None:
        gates, h, d = GATES[self._mode], self._hidden, self._directions
        rows = len(gates) * h
        inner = (self._layers - 1) * d * rows * (d * h + h)
        biases = self._layers * d * 2 * rows
        size, rest = divmod(arr.size - biases - inner - d * rows * h, d * rows)
        if rest or size < 1:
            raise ArgumentError(
                f"[FusedRNN] {name!r}: {arr.size} elements are no parameters of {self._layers} layers of "
                f"{self._mode} with {h} units"
            )
        filler = self._weights or getattr(name, "global_init", None) or Uniform(0.07)
        places = [(layer, way) for layer in range(self._layers) for way in "lr"[:d]]
        parts: list[NDArray] = []

        def fill(part: str, shape: tuple[int, ...]) -> None:
            values = nd.zeros(shape, ctx=arr.context)
            filler(InitDesc(part), values)
            if self._mode == "lstm" and part.endswith("_f_bias"):
                values[:] = self._forget_bias
            parts.append(values.reshape((-1,)))

        for layer, way in places:
            for group, columns in (("i2h", size if layer == 0 else d * h), ("h2h", h)):
                for gate in gates:
                    fill(f"{way}{layer}_{group}{gate}_weight", (h, columns))
        for layer, way in places:
            for group in ("i2h", "h2h"):
                for gate in gates:
                    fill(f"{way}{layer}_{group}{gate}_bias", (h,))
        arr[:] = nd.concat(*parts, dim=0).reshape(arr.shape)

    _by_name = _init_weight


class Load:
    """Values from a dict or `.params` file by name; `default_init` for the rest. Threads: one at a time."""

    def __init__(
        self,
        param: str | Mapping[str, NDArray],
        default_init: Initializer | None = None,
        verbose: bool = False,
    ) -> None:
        self.verbose = verbose
        loaded: Any = nd.load(param) if isinstance(param, str) else param
        self.param: dict[str, NDArray] = {
            re.sub("^(arg|aux):", "", name): value for name, value in loaded.items()
        }
        self.default_init = default_init

    def __call__(self, name: str, arr: NDArray) -> None:
        """Copies, or asks default_init."""
        if name in self.param:
            if self.param[name].shape != arr.shape:
                raise ArgumentError(
                    f"[Load] {name!r}: expected shape {arr.shape}, the file has {self.param[name].shape}"
                )
            arr[:] = self.param[name]
            if self.verbose:
                logging.info("Initialized %s by loading", name)
        elif self.default_init is not None:
            self.default_init(name, arr)
            if self.verbose:
                logging.info("Initialized %s by default", name)
        else:
            raise ArgumentError(f"[Load] no value for {name!r} and no default_init")


class Mixed:
    """The first initializer whose pattern is found in the name. Threads: one at a time."""

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Initializer]) -> None:
        if len(patterns) != len(initializers):
            raise ArgumentError(f"[Mixed] {len(patterns)} patterns for {len(initializers)} initializers")
        self.map = [(re.compile(p), i) for p, i in zip(patterns, initializers, strict=True)]

    def __call__(self, name: str, arr: NDArray) -> None:
        """Asks the first that matches."""
        for pattern, initializer in self.map:
            if pattern.match(name):
                initializer(name, arr)
                return
        raise ArgumentError(f"[Mixed] no pattern matches {name!r}; add '.*' as the last one")


def _mean_norm(arr: NDArray) -> float:
    return float(np.sqrt(np.square(arr.asnumpy().astype(np.float64)).mean()))


def _fill(kind: str, a: float, b: float, arr: NDArray) -> None:
    draw = random.uniform if kind == "uniform" else random.normal
    draw(a, b, shape=arr.shape, dtype=arr.dtype, ctx=arr.context, out=arr)
