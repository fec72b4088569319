# SPDX-License-Identifier: Apache-2.0
"""The base of initializers, which choose by the ending of a name; how they are found."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd
from mx_train.registry import Named, read_config

_family: Named[Initializer] = Named("initializers", "initializer")
register = _family.register


def alias(*names: str) -> Callable[[type[Initializer]], type[Initializer]]:
    """A decorator that makes an initializer known under further names."""
    return lambda cls: _family.register(cls, *names)


class InitDesc(str):
    """Name of a parameter, with the attributes of its variable.

    Threads: any; nothing here changes it.

    Attributes
    ----------
    attrs : mapping of str to str
        `__init__` names an initializer of its own.
    global_init : Initializer or None
        What was asked to fill the parameter, for initializers of attributes that fill parts with it. An initializer
        that is called with a name without one gives itself.
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
    """Fills arrays by the ending of their names.

    bias, beta, running and moving means get 0; gamma and variances 1. Names of quantized parameters end in
    `weight_quantize`, which get random integers from −127 to 126, and in `bias_quantize`, which get 0. A subclass
    defines `_init_weight`, and may define `_init_bias`, `_init_gamma`, `_init_beta`, and `_init_default` for names with
    other endings.

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

        The attribute `__init__` of an `InitDesc` names the initializer to use instead, whatever the name ends in. Text
        that is no `InitDesc` may begin with `upsampling`, which gets bilinear weights, or with `stn_loc`, which gets
        the weight and bias of the identity.

        Raises
        ------
        ArgumentError  the name has none of the known endings
        """
        if not isinstance(desc, InitDesc):
            self._by_text(desc, arr)
            return
        if desc.global_init is None:
            desc = InitDesc(desc, desc.attrs, self)
        own = desc.attrs.get("__init__", "")
        if own:
            create(own)._init_weight(desc, arr)
        ending = own or self._by_name(desc, arr)
        if self._verbose and ending:
            logging.info("Initialized %s as %s: %s", desc, ending, self._print(arr))

    def _by_name(self, name: str, arr: NDArray) -> str:
        """Fills by the ending of the name, and returns the ending; empty if it is none."""
        for ending, method in (
            ("weight", self._init_weight), ("bias", self._init_bias), ("gamma", self._init_gamma),
            ("beta", self._init_beta), ("min", self._init_zero), ("max", self._init_one),
            ("mean", self._init_zero), ("moving_inv_var", self._init_zero), ("var", self._init_one),
            ("moving_avg", self._init_zero), ("weight_quantize", self._init_quantized_weight),
            ("bias_quantize", self._init_quantized_bias),
        ):  # fmt: skip
            if name.endswith(ending):
                method(name, arr)
                return ending
        self._init_default(name, arr)
        return ""

    def _by_text(self, name: str, arr: NDArray) -> None:
        if name.startswith("upsampling"):
            self._init_bilinear(name, arr)
        elif name.startswith("stn_loc") and name.endswith(("weight", "bias")):
            (self._init_zero if name.endswith("weight") else self._init_loc_bias)(name, arr)
        else:
            self._by_name(name, arr)

    def _init_weight(self, name: str, arr: NDArray) -> None:
        raise NotImplementedError

    def _init_bias(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_gamma(self, name: str, arr: NDArray) -> None:
        arr[:] = 1.0

    def _init_beta(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_default(self, name: str, arr: NDArray) -> None:
        raise ArgumentError(
            f"[{type(self).__name__}] {name!r} ends in none of weight, bias, gamma, beta, mean, var; "
            "name it so, give the variable an init=…, or use initializer.Mixed; data and labels are named by the "
            "module's data_names and label_names"
        )

    def _init_zero(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_one(self, name: str, arr: NDArray) -> None:
        arr[:] = 1.0

    def _init_quantized_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = nd.random.randint(-127, 127, shape=arr.shape, ctx=arr.context).astype(arr.dtype)

    def _init_quantized_bias(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_bilinear(self, name: str, arr: NDArray) -> None:
        if len(arr.shape) != 4:
            raise ArgumentError(f"[{type(self).__name__}] {name!r}: expected 4 axes, got shape {arr.shape}")
        rows, columns = arr.shape[2:]
        f = math.ceil(columns / 2)
        c = (2 * f - 1 - f % 2) / (2.0 * f)
        down, across = (1 - np.abs(np.arange(size) / f - c) for size in (rows, columns))
        arr[:] = np.broadcast_to(np.outer(down, across), arr.shape).astype(np.float32)

    def _init_loc_bias(self, name: str, arr: NDArray) -> None:
        if arr.shape != (6,):
            raise ArgumentError(f"[{type(self).__name__}] {name!r}: expected shape (6,), got {arr.shape}")
        arr[:] = np.array([1, 0, 0, 0, 1, 0], np.float32)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._kwargs == self._kwargs

    __hash__ = None  # type: ignore[assignment]  # Python's way to say that there is none


def create(name: str | Initializer, **kwargs: Any) -> Initializer:
    """An initializer by name, or as JSON: what `dumps` wrote, or an object with the name as `initializer`.

    Raises
    ------
    ArgumentError  no initializer has the name, or the text is no such JSON
    """
    if isinstance(name, str) and name.startswith(("[", "{")):
        found, arguments = read_config(name, "initializer")
        return _family.create(found, **arguments)
    return _family.create(name, **kwargs)


def _mean_norm(arr: NDArray) -> str:
    return str(np.float32(np.sqrt(np.square(arr.asnumpy().astype(np.float64)).mean())))
