# SPDX-License-Identifier: Apache-2.0
"""ParameterDict: parameters by name, of which a block may share some with others."""

from __future__ import annotations

import os
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_gluon.errors import RefusedError
from mx_gluon.parameter.constant import Constant
from mx_gluon.parameter.filling import Contexts, Init
from mx_gluon.parameter.loading import brief, load_all
from mx_gluon.parameter.parameter import Parameter
from mx_gluon.parameter.shapes import merged
from mx_ndarray import NDArray, nd
from mx_train import initializer


class ParameterDict:
    """Parameters by name, in the order in which they were made.

    Threads: one at a time makes parameters; any may look up.

    Parameters
    ----------
    prefix : str
        Before the name of every parameter that `get` makes.
    shared : ParameterDict, optional
        Where `get` looks before it makes a parameter.
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix = prefix
        self._params: dict[str, Parameter] = {}
        self._shared = shared

    def __repr__(self) -> str:
        head = f"{self._prefix} " if self._prefix else ""
        listed = "\n".join(f"  {param!r}" for param in self.values())
        return f"{head}(\n{listed}\n)"

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __contains__(self, key: object) -> bool:
        return key in self._params

    def items(self) -> ItemsView[str, Parameter]:
        """Names with parameters."""
        return self._params.items()

    def keys(self) -> KeysView[str]:
        """Names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """Parameters."""
        return self._params.values()

    @property
    def prefix(self) -> str:
        """What is before the name of every parameter that `get` makes."""
        return self._prefix

    # ---- making ----

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """The parameter `prefix + name`: the one that is here or in the shared dictionary, or a new one.

        Parameters
        ----------
        **kwargs : arguments of `Parameter`

        Raises
        ------
        RefusedError  the parameter exists with another shape, type or the like
        """
        name = self.prefix + name
        param = self._find(name)
        if param is None:
            param = self._params[name] = Parameter(name, **kwargs)
            return param
        for key, value in kwargs.items():
            self._agree(param, key, value)
        return param

    def get_constant(self, name: str, value: Any = None) -> Constant:
        """The constant `prefix + name`, made from `value` if it is not here or in the shared dictionary.

        Raises
        ------
        KeyError      it is not there, and no value is given
        RefusedError  it has another value, or is no constant
        """
        name = self.prefix + name
        param = self._find(name)
        if param is None:
            if value is None:
                raise KeyError(f"no constant named {name!r}; give a value to make one")
            made = self._params[name] = Constant(name, value)
            return made
        if not isinstance(param, Constant):
            raise RefusedError(f"[ParameterDict] {name!r} is a Parameter, not a Constant")
        if value is not None:
            given = value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)
            if param.shape != given.shape or not np.array_equal(param.value.asnumpy(), given):
                raise RefusedError(f"[ParameterDict] constant {name!r} has another value than the one given")
        return param

    def _find(self, name: str) -> Parameter | None:
        if name not in self._params and self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
        return self._params.get(name)

    def _agree(self, param: Parameter, key: str, value: Any) -> None:
        """Checks a given attribute against that of an existing parameter, or sets it where there is none."""
        existing = getattr(param, key, None)
        if existing is None:
            setattr(param, key, value)
            return
        if value is None:
            return
        if key == "shape":
            shape = merged((value,) if isinstance(value, int) else value, existing)
            if shape is not None:
                param._shape = shape
                return
        elif key == "dtype" and dtypes.code(value, key) == dtypes.code(existing, key):
            return
        if value != existing:
            raise RefusedError(f"[ParameterDict] {param.name!r}: {key}: expected {existing!r}, got {value!r}")

    def update(self, other: ParameterDict | Mapping[str, Parameter]) -> None:
        """Takes all parameters of another dictionary.

        Raises
        ------
        RefusedError  two different parameters have one name
        """
        for key, value in other.items():
            if self._params.get(key, value) is not value:
                raise RefusedError(f"[ParameterDict] update: two parameters are called {key!r}")
        self._params.update(other.items())

    # ---- all at once ----

    def initialize(
        self,
        init: Init = initializer.Uniform(),
        ctx: Contexts = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialises all parameters; a parameter's own initializer goes before `init`. See `Parameter.initialize`."""
        if verbose:
            init = initializer.create(init) if isinstance(init, str) else init
            if isinstance(init, initializer.Initializer):  # `Mixed` and `Load` tell nothing
                init.set_verbosity(verbose=verbose)
        for param in self.values():
            param.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Fills all gradients with 0."""
        for param in self.values():
            param.zero_grad()

    def reset_ctx(self, ctx: Contexts) -> None:
        """Moves all parameters to other contexts."""
        for param in self.values():
            param.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """Contexts on which any parameter is."""
        return list(dict.fromkeys(ctx for param in self.values() for ctx in param.list_ctx()))

    def setattr(self, name: str, value: Any) -> None:
        """Sets an attribute of all parameters, such as `grad_req` or `lr_mult`."""
        for param in self.values():
            setattr(param, name, value)

    # ---- files ----

    def save(self, filename: str | os.PathLike[str], strip_prefix: str = "") -> None:
        """Writes all values to a file that MXNet reads, too.

        Parameters
        ----------
        strip_prefix : str
            Is taken off every name.

        Raises
        ------
        ArgumentError  a name does not begin with it
        """
        named = {}
        for param in self.values():
            if not param.name.startswith(strip_prefix):
                raise ArgumentError(
                    f"[ParameterDict] save: {param.name!r} does not begin with strip_prefix {strip_prefix!r}: it is "
                    "shared, or its block was made outside of name_scope()"
                )
            named[param.name[len(strip_prefix) :]] = param._reduce()
        nd.save(filename, named)

    def load(
        self,
        filename: str | os.PathLike[str],
        ctx: Contexts = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Reads values from a file of `save`, of MXNet or of a checkpoint.

        Parameters
        ----------
        ctx : Context or sequence of them, optional
            Where parameters that are not initialised go.
        allow_missing, ignore_extra : bool
            Whether names may be missing in the file, or in this dictionary.
        restore_prefix : str
            Is put before every name of the file.
        cast_dtype, dtype_source
            What happens where the types differ: see `load_into`.

        Raises
        ------
        RefusedError     a name is missing, or a value does not fit; no parameter is changed by missing names
        FileFormatError  the file is damaged
        """
        self.load_dict(
            nd.load(filename),
            ctx,
            allow_missing,
            ignore_extra,
            restore_prefix,
            str(filename),
            cast_dtype,
            dtype_source,
        )

    def load_dict(
        self,
        param_dict: Mapping[str, NDArray],
        ctx: Contexts = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """As `load`, from arrays by name, with or without `arg:` and `aux:` before it."""
        where = f"file {filename}" if filename else "the dictionary"
        if not param_dict:  # a file of no arrays has no names either
            param_dict = {}
        if not isinstance(param_dict, Mapping):
            raise RefusedError(
                f"[ParameterDict] load: {where}: expected named arrays, got {type(param_dict).__name__}"
            )
        for name in self.keys():
            if not name.startswith(restore_prefix):
                raise RefusedError(f"[ParameterDict] load: {name!r} does not begin with {restore_prefix!r}")
        given = {restore_prefix + _bare(name): value for name, value in param_dict.items()}
        missing = [name for name in self.keys() if name not in given]
        if missing and not allow_missing:
            raise RefusedError(
                f"[ParameterDict] load: {where} lacks {brief(missing)}; it has {brief(given)}; allow_missing=True "
                "leaves them as they are"
            )
        extra = [name for name in given if name not in self._params]
        if extra and not ignore_extra:
            raise RefusedError(
                f"[ParameterDict] load: {where} has {brief(extra)}, which are not parameters here; these are "
                f"{brief(self.keys())}; ignore_extra=True leaves them out"
            )
        values = [(self[name], value) for name, value in given.items() if name in self._params]
        load_all(values, ctx, cast_dtype, dtype_source)


def _bare(name: str) -> str:
    return name[4:] if name.startswith(("arg:", "aux:")) else name
