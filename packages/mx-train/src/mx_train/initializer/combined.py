# SPDX-License-Identifier: Apache-2.0
"""Initializers that choose values by the whole name of a parameter."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd
from mx_train.initializer.initializer import Initializer


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
