# SPDX-License-Identifier: Apache-2.0
"""Block: a part of a network, which holds parameters and other blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from mx_core.errors import DTypeError, ShapeError
from mx_gluon.block import files
from mx_gluon.block.hooks import Hook, HookHandle
from mx_gluon.block.scope import BlockScope
from mx_gluon.block.summary import print_summary
from mx_gluon.block.told import tell_where
from mx_gluon.errors import RefusedError
from mx_gluon.parameter import Parameter, ParameterDict
from mx_gluon.parameter.filling import Contexts, Init
from mx_gluon.warned import warn
from mx_train import initializer


class Block:
    """A part of a network: parameters, blocks within, and `forward`.

    Blocks and parameters that are assigned to attributes are registered under the attribute's name. Blocks in lists
    and dictionaries are not: `register_child` does that.

    Threads: any may call one that is initialised and does not change; it is built by one at a time.

    Parameters
    ----------
    prefix : str, optional
        Before the names of its parameters and blocks; by default its kind and a number. "" makes `name_scope` do
        nothing.
    params : ParameterDict, optional
        Of another block, with which it shares parameters of the same names.

    Examples
    --------
    >>> class Net(Block):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         with self.name_scope():
    ...             self.dense = nn.Dense(3)
    ...
    ...     def forward(self, x):
    ...         return nd.relu(self.dense(x))
    """

    #: whether it only calls one block after the other, which a summary leaves out
    _is_chain = False

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        self._empty_prefix = prefix == ""
        self._prefix, self._params = BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix.removesuffix("_")
        self._scope = BlockScope(self)
        self._children: dict[str, Block] = {}
        self._reg_params: dict[str, Parameter] = {}
        self._forward_hooks: dict[int, Hook] = {}
        self._forward_pre_hooks: dict[int, Hook] = {}

    def __repr__(self) -> str:
        return _listed(self, {key: value for key, value in vars(self).items() if isinstance(value, Block)})

    def __setattr__(self, name: str, value: Any) -> None:
        existing = getattr(self, name, None)
        if isinstance(existing, (Parameter, Block)) and not isinstance(value, type(existing)):
            raise TypeError(
                f"[{self.name}] {name}: expected a {type(existing).__name__}, as it is, got a {type(value).__name__}"
            )
        if isinstance(value, (Block, Parameter)) and "_reg_params" not in self.__dict__:
            raise AttributeError(
                f"[{type(self).__name__}] {name}: call super().__init__() before a block or parameter is assigned"
            )
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            if name in self._reg_params:
                raise RefusedError(
                    f"[{self.name}] {name}: is {self._reg_params[name]!r} already; to share a parameter, give "
                    "params to the block"
                )
            self._reg_params[name] = value
        super().__setattr__(name, value)

    def _alias(self) -> str:
        """Kind of the block, of which its name is made."""
        return type(self).__name__.lower()

    # ---- names and parameters ----

    @property
    def prefix(self) -> str:
        """Before the names of its parameters and blocks."""
        return self._prefix

    @property
    def name(self) -> str:
        """The prefix without the last underscore."""
        return self._name

    def name_scope(self) -> BlockScope:
        """A `with` block in which blocks and parameters are named after this one."""
        return self._scope

    @property
    def params(self) -> ParameterDict:
        """Its own parameters, without those of blocks within."""
        return self._params

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Its parameters and those of all blocks within.

        Parameters
        ----------
        select : str, optional
            A regular expression that the beginning of a name must match: `".*weight|.*bias"`.
        """
        self._warn_of_unregistered()
        found = ParameterDict(self._params.prefix)
        pattern = re.compile(select or "")
        found.update({name: param for name, param in self._params.items() if pattern.match(name)})
        for child in self._children.values():
            found.update(child.collect_params(select))
        return found

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        return files.by_structure(self, prefix)

    def _warn_of_unregistered(self) -> None:
        known = set(map(id, self._children.values()))
        for name, value in vars(self).items():
            if name == "_children" or name.startswith("__") or not isinstance(value, (list, tuple, dict)):
                continue
            if any(id(block) not in known for block in _blocks_in(value)):
                warn(
                    f"[{self.name}] {type(self).__name__}.{name} has blocks that are not registered: call "
                    "register_child for each, or use nn.Sequential"
                )

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Adds a block within; assigning it to an attribute does the same.

        Parameters
        ----------
        name : str, optional
            The number of blocks before it.
        """
        self._children[str(len(self._children)) if name is None else name] = block

    def apply(self, fn: Callable[[Block], Any]) -> Self:
        """Calls a function with every block within, the inner ones first, and with this one."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def initialize(
        self,
        init: Init = initializer.Uniform(),
        ctx: Contexts = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialises all parameters; see `ParameterDict.initialize`."""
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Has hybrid blocks within compute as one graph each; see `HybridBlock.hybridize`."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def cast(self, dtype: Any) -> None:
        """Changes the element type of all parameters; layers that cannot compute in it keep theirs."""
        for child in self._children.values():
            child.cast(dtype)
        for param in self.params.values():
            param.cast(dtype)

    # ---- calls ----

    def __call__(self, *args: Any) -> Any:
        """`forward`, with the hooks before and after it."""
        if self._forward_pre_hooks:
            for hook in list(self._forward_pre_hooks.values()):
                hook(self, args)
        try:
            out = self.forward(*args)
        except (ShapeError, DTypeError) as error:
            tell_where(self, args, error)
            raise
        if self._forward_hooks:
            for hook in list(self._forward_hooks.values()):
                hook(self, args, out)
        return out

    def forward(self, *args: Any) -> Any:
        """What the block computes from its inputs."""
        raise NotImplementedError(f"[{self.name}] {type(self).__name__} does not define forward")

    def register_forward_pre_hook(self, hook: Hook) -> HookHandle:
        """Has `hook(block, inputs)` called before every `forward`; what it returns is not used."""
        handle = HookHandle()
        handle.attach(self._forward_pre_hooks, hook)
        return handle

    def register_forward_hook(self, hook: Hook) -> HookHandle:
        """Has `hook(block, inputs, outputs)` called after every `forward`; what it returns is not used."""
        handle = HookHandle()
        handle.attach(self._forward_hooks, hook)
        return handle

    def register_op_hook(self, callback: Hook, monitor_all: bool = False) -> None:
        """Has a function called with what operators of hybridised blocks compute; see `HybridBlock`."""
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def summary(self, *inputs: Any) -> None:
        """Runs the block and prints a table: for each block within the shapes of its outputs and its parameters.

        Parameters
        ----------
        *inputs : of `forward`

        Raises
        ------
        RefusedError  a block is hybridised, or a parameter is not initialised
        """
        print_summary(self, inputs)

    # ---- files ----

    def save_parameters(self, filename: files.Path, deduplicate: bool = False) -> None:
        """Writes the values of all parameters, named by attributes (`features.0.weight`), as MXNet does.

        Parameters
        ----------
        deduplicate : bool
            Write a parameter that several blocks share only once, under its last name.
        """
        files.save_parameters(self, filename, deduplicate)

    def load_parameters(
        self,
        filename: files.Path,
        ctx: Contexts = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Reads a file of `save_parameters`, of `ParameterDict.save`, or of MXNet.

        Parameters
        ----------
        ctx : Context or sequence of them, optional
            Where parameters that are not initialised go; `cpu(0)` without.
        allow_missing, ignore_extra : bool
            Whether names may be missing in the file, or in the block.
        cast_dtype : bool
            Accept another element type.
        dtype_source : {"current", "saved"}
            Which type wins then.

        Raises
        ------
        RefusedError     a parameter is missing in the file, or its shape, type or context differs
        ArgumentError    the file has more
        FileFormatError  the file is damaged
        """
        files.load_parameters(self, filename, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source)

    def save_params(self, filename: files.Path) -> None:
        """Deprecated: `save_parameters`. Writes the parameters by their names without the block's prefix."""
        files.warn_of_old_name("save_params", "save_parameters")
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(
        self,
        filename: files.Path,
        ctx: Contexts = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> None:
        """Deprecated: `load_parameters`."""
        files.warn_of_old_name("load_params", "load_parameters")
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    def save(self, prefix: str) -> None:
        """Writes `prefix-model.json`, with the graphs that were traced, and `prefix-model.params`."""
        files.save_model(self, prefix)

    def load(self, prefix: str) -> None:
        """Reads files of `save` into a block of the same structure, which gets the saved names and graphs.

        Raises
        ------
        FileFormatError  the description is of another structure
        """
        files.load_model(self, prefix)

    def _described_graph(self) -> dict[str, Any]:
        """What `save` writes of the graph of a block that has one."""
        return {}

    def _take_graph(self, model: Mapping[str, Any]) -> None:
        """Takes a graph from what `save` wrote."""


def _blocks_in(value: Any) -> Iterator[Block]:
    if isinstance(value, Block):
        yield value
    elif isinstance(value, dict):
        yield from _blocks_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _blocks_in(each)


def _listed(block: Block, inner: dict[str, Block]) -> str:
    """A block with the blocks within, for `repr`."""
    texts = {key: repr(value).replace("\n", "\n  ") for key, value in inner.items()}
    lines = "\n".join(f"  ({key}): {text}" for key, text in texts.items())
    return f"{type(block).__name__}(\n{lines}\n)"
