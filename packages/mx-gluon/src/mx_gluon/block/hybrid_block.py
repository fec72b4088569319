# SPDX-License-Identifier: Apache-2.0
"""HybridBlock: a block whose computation can be traced as a graph and run as one program."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from mx_core.context import Context
from mx_core.errors import ArgumentError, MXNetError
from mx_gluon.block import files
from mx_gluon.block.block import Block
from mx_gluon.block.hooks import Hook
from mx_gluon.block.structure import Format, flatten, kinds, regroup, same_structure
from mx_gluon.block.tracing import Compiled, Graph, infer, infer_deferred, trace
from mx_gluon.errors import DeferredInitializationError
from mx_gluon.parameter import Parameter, ParameterDict
from mx_gluon.parameter.collected import Collected, present
from mx_ndarray import NDArray, nd
from mx_ndarray.several import common_context, is_current_context
from mx_symbol import sym

#: the formats of that many arrays
_PLAIN: dict[int, list[Format]] = {n: [0] * n for n in range(1, 17)}


class HybridBlock(Block):
    """A block that computes with arrays call by call, or as one graph after `hybridize`.

    A subclass defines `hybrid_forward(F, x, ..., **params)`, where `F` is `mx_ndarray.nd` or `mx_symbol.sym` and the
    parameters come by the names of their attributes. Blocks within are hybrid blocks, too.

    Threads: any may call one that is initialised, also for the first time; it is built and hybridised by one at a time.

    Parameters
    ----------
    prefix, params : as in `Block`

    Examples
    --------
    >>> class Scaled(HybridBlock):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.factor = self.params.get("factor", shape=(1,), init="ones")
    ...
    ...     def hybrid_forward(self, F, x, factor):
    ...         return F.broadcast_mul(x, factor)
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._cached_graph: Graph | tuple[()] = ()
        self._cached_op: Compiled | None = None
        self._own: Collected[dict[str, NDArray]] = Collected()
        self._in_format: Format = 0
        self._out_format: Format = 0
        self._active = False
        self._flags: list[tuple[str, Any]] = []
        self._callback: Hook | None = None
        self._monitor_all = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cached_op": None}  # a copy compiles its graph with its own parameters

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, HybridBlock):
            self._clear_cached_op()
        elif isinstance(value, Parameter):
            self._own = Collected()

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Adds a hybrid block within.

        Raises
        ------
        ArgumentError  it is not a hybrid one
        """
        if not isinstance(block, HybridBlock):
            raise ArgumentError(
                f"[{self.name}] register_child: expected a HybridBlock, got {block!r} of type "
                f"{type(block).__name__}; nn.Sequential takes any Block"
            )
        super().register_child(block, name)
        self._clear_cached_op()

    # ---- the graph ----

    def hybridize(
        self,
        active: bool = True,
        backend: str | None = None,
        clear: bool = True,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Computes as one graph from the next call on; memory is planned once per combination of input shapes.

        Parameters
        ----------
        active : bool
            False computes call by call again.
        clear : bool
            Trace anew, even if there is a graph.
        static_alloc, static_shape, inline_limit, forward_bulk_size, backward_bulk_size
            Accepted for compatibility: memory is always planned.
        backend : None
            MXNet's subgraph backends are not here; passes come by the hook `mx_register_graph_passes`.

        Raises
        ------
        ArgumentError  a backend, or options of one
        """
        _refuse_backend(self, "hybridize", backend, kwargs)
        sizes = {"forward_bulk_size": forward_bulk_size, "backward_bulk_size": backward_bulk_size}
        self._active = active
        self._flags = [
            ("static_alloc", static_alloc),
            ("static_shape", static_shape),
            ("inline_limit", inline_limit),
        ]
        self._flags += [(name, size) for name, size in sizes.items() if size is not None]
        if clear:
            self._clear_cached_op()
        if active and (self._forward_hooks or self._forward_pre_hooks):
            warnings.warn(
                f"[{self.name}] hybridize: its hooks are not called where it is within a block that runs as a graph",
                stacklevel=2,
            )
        super().hybridize(
            active, static_alloc=static_alloc, static_shape=static_shape, inline_limit=inline_limit, **sizes
        )

    def optimize_for(self, x: Any, *args: Any, backend: str | None = None, **kwargs: Any) -> None:
        """Raises ArgumentError: MXNet's subgraph backends are not here; `hybridize` compiles the graph."""
        _refuse_backend(self, "optimize_for", backend or "", {})

    def _clear_cached_op(self) -> None:
        self._cached_graph = ()
        self._cached_op = None

    def _get_graph(self, *args: Any) -> Graph:
        if not self._cached_graph:
            graph, self._in_format, self._out_format = trace(self, args)
            self._cached_graph = graph  # the last: other threads take it as soon as it is there
        return self._cached_graph

    def _graph_parameters(self) -> Mapping[str, Parameter]:
        """Parameters that the graph may need, by name."""
        return dict(self.collect_params().items())

    def _call_cached_op(self, *args: Any) -> Any:
        if self._cached_op is None:
            self._cached_op = Compiled(self, args)
        flat, form = flatten(list(args), "input")
        if form != self._in_format and not same_structure(form, self._in_format):
            raise ArgumentError(
                f"[{self.name}] the arguments have another structure than those that the graph was made with: expected "
                f"{self._in_format}, got {form} (0 is an array, -1 None); hybridize() again to trace anew"
            )
        arrays = [each for each in flat if each is not None]
        return self._outputs(self._cached_op(arrays, arrays[0].context))

    def _outputs(self, made: NDArray | list[NDArray]) -> Any:
        if isinstance(made, NDArray):
            return made if self._out_format == 0 else regroup([made], self._out_format)
        return regroup(made, self._out_format)

    def infer_shape(self, *args: Any) -> None:
        """Sets the shapes of parameters from arrays for `forward`.

        Raises
        ------
        ShapeError, ArgumentError  shapes contradict each other, or some stay unknown
        """
        infer(self, args, "shape")

    def infer_type(self, *args: Any) -> None:
        """Sets the element types of parameters from arrays for `forward`."""
        infer(self, args, "dtype")

    def cast(self, dtype: Any) -> None:
        """Changes the element type of all parameters; the graph is traced anew."""
        self._clear_cached_op()
        super().cast(dtype)

    def register_op_hook(self, callback: Hook, monitor_all: bool = False) -> None:
        """Has a function called with what each operator computes, when the block runs as a graph.

        Parameters
        ----------
        callback : function of (name of the value, name of the operator, NDArray)
        monitor_all : bool
            With the inputs of each operator, too.
        """
        self._callback, self._monitor_all = callback, monitor_all
        self._cached_op = None
        super().register_op_hook(callback, monitor_all)

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Writes `path-symbol.json` and `path-NNNN.params`, which `SymbolBlock.imports`, `Module` and MXNet read.

        Parameters
        ----------
        epoch : int
            Number in the name of the file.
        remove_amp_cast : bool
            Leave out the casts that mixed precision put in.

        Raises
        ------
        MXNetError  the block was not hybridised, or not called since
        """
        if not self._cached_graph:
            raise MXNetError(
                f"[{self.name}] export: there is no graph yet: hybridize() and call the block once"
            )
        files.export(self, path, epoch, remove_amp_cast)

    def _described_graph(self) -> dict[str, Any]:
        if not self._cached_graph:
            return {"hybridized": False}
        inputs, graph = self._cached_graph
        return {
            "in_format": self._in_format,
            "out_format": self._out_format,
            "inputs": [each.tojson() for each in inputs],
            "symbol": graph.tojson(),
            "hybridized": True,
        }

    def _take_graph(self, model: Mapping[str, Any]) -> None:
        if model["hybridized"]:
            self._in_format, self._out_format = model["in_format"], model["out_format"]
            inputs = [sym.load_json(text) for text in model["inputs"]]
            self._cached_graph = (inputs, sym.load_json(model["symbol"]))
            self._active = True

    # ---- calls ----

    def forward(self, x: Any, *args: Any) -> Any:
        """Computes with arrays, or makes symbols from symbols.

        Raises
        ------
        ArgumentError                arrays and symbols are mixed, there is none of them, or arrays that a graph
                                     takes lie on several contexts
        DeferredInitializationError  never: parameters that wait for a shape get it here
        """
        inputs = (x, *args)
        ctx = common_context(inputs)
        if ctx is None:
            return self._forward_of(x, args)
        if self._active:
            if self._cached_op is not None and self._in_format == _PLAIN.get(len(inputs)):
                return self._outputs(self._cached_op(inputs, ctx))
            with ctx:
                return self._call_cached_op(x, *args)
        params = self._own.get(ctx)
        if params is None:
            params = self._own_parameters(ctx, inputs)
        if is_current_context(ctx):
            return self.hybrid_forward(nd, x, *args, **params)
        with ctx:
            return self.hybrid_forward(nd, x, *args, **params)

    def _forward_of(self, x: Any, args: tuple[Any, ...]) -> Any:
        """`forward` where the inputs are not just arrays on one context."""
        has_symbols, contexts = kinds((x, args))
        if has_symbols == bool(contexts):
            what = (
                "NDArrays and symbols are mixed"
                if has_symbols
                else "there is neither an NDArray nor a symbol"
            )
            cure = "" if has_symbols else "; nd.array(...) makes an NDArray"
            raise ArgumentError(f"[{self.name}] {what} among the arguments {_types((x, *args))}{cure}")
        if has_symbols:
            params: dict[str, Any] = {name: param.var() for name, param in self._reg_params.items()}
            with self.name_scope():
                return self.hybrid_forward(sym, x, *args, **params)
        ctx = contexts[0]
        if self._active and len(contexts) > 1:
            raise ArgumentError(f"[{self.name}] the inputs of a graph lie on one context, got {contexts}")
        with ctx:
            if self._active:
                return self._call_cached_op(x, *args)
            return self.hybrid_forward(nd, x, *args, **self._own_parameters(ctx, (x, *args)))

    def _own_parameters(self, ctx: Context, inputs: tuple[Any, ...]) -> dict[str, NDArray]:
        """Values of its own parameters, by the names of their attributes."""
        version = present()
        try:
            params = {name: param.data(ctx) for name, param in self._reg_params.items()}
        except DeferredInitializationError:
            with ctx:
                infer_deferred(self, inputs)
                for param in self.params.values():
                    param._finish_deferred_init()
            params = {name: param.data(ctx) for name, param in self._reg_params.items()}
        self._own.put(version, ctx, params)
        return params

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """What the block computes.

        Parameters
        ----------
        F : module
            `mx_ndarray.nd` or `mx_symbol.sym`.
        x, *args
            The inputs.
        **kwargs
            Its own parameters, by the names of their attributes.
        """
        raise NotImplementedError(f"[{self.name}] {type(self).__name__} does not define hybrid_forward")


def _types(args: tuple[Any, ...]) -> str:
    return ", ".join(
        f"{type(each).__module__}.{type(each).__name__}".removeprefix("builtins.") for each in args
    )


#: flags of MXNet's CachedOp that say which inputs are data; a block knows
_INDICES = frozenset(("data_indices", "param_indices"))


def _refuse_backend(block: Block, what: str, backend: str | None, options: Mapping[str, Any]) -> None:
    if backend is not None:
        raise ArgumentError(
            f"[{block.name}] {what}: backend: expected None, got {backend!r}: MXNet's subgraph backends are not here; "
            "graph passes come by the hook mx_register_graph_passes"
        )
    if unknown := sorted(set(options) - _INDICES):
        raise ArgumentError(f"[{block.name}] {what}: unknown arguments {', '.join(unknown)}")
