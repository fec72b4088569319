# SPDX-License-Identifier: Apache-2.0
"""SymbolBlock: a block made from a symbol, whose other variables are its parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.errors import ArgumentError, MXNetError
from mx_gluon.block.hybrid_block import HybridBlock
from mx_gluon.block.structure import flatten, kinds, regroup, same_structure
from mx_gluon.errors import RefusedError
from mx_gluon.parameter import Parameter, ParameterDict
from mx_gluon.parameter.filling import Contexts
from mx_gluon.parameter.loading import brief
from mx_ndarray import nd
from mx_symbol import Group, Symbol, sym
from mx_symbol.graph.text import storage_type

#: names of a BatchNorm's variables, which stay float32 where the others get 16 bits
_STATISTICS = (("running_var", "running_mean"), ("moving_var", "moving_mean"))


class SymbolBlock(HybridBlock):
    """A block that computes a symbol: one that was exported, or a part of another network.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    outputs : Symbol or list of them
    inputs : Symbol or list of them
        Variables; all others become parameters, which keep their names.
    params : ParameterDict, optional
        With which to share.

    Raises
    ------
    RefusedError   an input is no variable
    ArgumentError  a variable is stored as rows of a sparse array

    Examples
    --------
    >>> net = SymbolBlock.imports("net-symbol.json", ["data"], "net-0000.params")
    """

    def __init__(self, outputs: Any, inputs: Any, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=None, params=None)
        self._prefix = ""
        self._params = ParameterDict("", params)
        if isinstance(inputs, Symbol):
            inputs = list(inputs)
        if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
            outputs = outputs[0]
        variables, self._in_format = flatten(inputs, "input")
        parts, self._out_format = flatten(outputs, "output")
        for each in variables:
            if len(each.nodes) != 1 or not each.nodes[0].is_variable:
                raise RefusedError(
                    f"[SymbolBlock] inputs: expected variables, got {each!r}, which is computed"
                )
        graph = parts[0] if len(parts) == 1 else Group(parts)
        _refuse_sparse(graph)
        names = {each.name for each in variables}
        types = _types(variables, graph)
        auxiliary = set(graph.list_auxiliary_states())
        for name in [*graph.list_arguments(), *graph.list_auxiliary_states()]:
            if name not in names:
                request = {"grad_req": "null"} if name in auxiliary else {}
                self.params.get(name, allow_deferred_init=True, dtype=types.get(name, np.float32), **request)
        self._cached_graph = (variables, graph)
        common = len(os.path.commonprefix(list(self._params.keys())))
        self._reg_params = {name[common:]: param for name, param in self._params.items()}

    @staticmethod
    def imports(
        symbol_file: str,
        input_names: str | Sequence[str],
        param_file: str | None = None,
        ctx: Contexts = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> SymbolBlock:
        """A block from files that `HybridBlock.export`, a checkpoint or MXNet wrote.

        Parameters
        ----------
        symbol_file : str
        input_names : str or sequence of str
            Names of the variables that are inputs.
        param_file : str, optional
            Values of the parameters, whose types win.
        ctx : Context or sequence of them, optional
            Where they go; `cpu(0)` without.
        allow_missing, ignore_extra : bool
            Whether the file may lack parameters, or have more.

        Raises
        ------
        RefusedError      the graph has no such input, or a value is missing or does not fit
        MissingFileError  there is no such file
        FileFormatError   a file is damaged
        """
        graph = sym.load(symbol_file)
        names = [input_names] if isinstance(input_names, str) else list(input_names)
        dtype = "float32" if param_file is None else None
        made = SymbolBlock(graph, [sym.var(name, dtype=dtype) for name in names])
        if param_file is not None:
            saved = nd.load(param_file)
            if isinstance(saved, dict) and not allow_missing:
                _refuse_unnamed(graph, names, made.params, saved, param_file)
            made.collect_params().load_dict(
                saved, ctx, allow_missing, ignore_extra, "", param_file, cast_dtype=True, dtype_source="saved"
            )
        return made

    def __repr__(self) -> str:
        inputs, graph = self._get_graph()
        return f"SymbolBlock(\n{graph!r} : {len(inputs)} -> {len(graph)}\n)"

    def forward(self, x: Any, *args: Any) -> Any:
        """Computes the symbol with arrays, or puts symbols in place of its inputs.

        Raises
        ------
        RefusedError  something else came, or another number of inputs
        """
        has_symbols, contexts = kinds((x, args))
        if contexts and not has_symbols:
            with contexts[0]:
                return self._call_cached_op(x, *args)
        if not has_symbols or contexts:
            raise RefusedError(f"[{self.name}] expected NDArrays or symbols, got {(x, *args)!r}")
        flat, form = flatten([x, *args], "input")
        self._expect_structure(form)
        inputs, graph = self._get_graph()
        given = [each for each in flat if each is not None]
        named = {str(each.name): symbol for each, symbol in zip(inputs, given, strict=True)}
        return regroup(list(graph(**named)), self._out_format)

    def _expect_structure(self, form: Any) -> None:
        if form != self._in_format and not same_structure(form, self._in_format):
            raise RefusedError(
                f"[{self.name}] expected inputs of the structure {self._in_format}, got {form} (0 is an array or "
                "symbol, -1 None)"
            )

    def _call_cached_op(self, *args: Any) -> Any:
        inputs = self._get_graph()[0]
        flat, form = flatten(list(args), "input")
        given = [each for each in flat if each is not None]
        if len(given) != len(inputs):
            names = ", ".join(str(each.name) for each in inputs)
            raise ArgumentError(f"[{self.name}] expected {len(inputs)} arrays ({names}), got {len(given)}")
        self._expect_structure(form)
        return super()._call_cached_op(*args)

    def _graph_parameters(self) -> Mapping[str, Parameter]:
        return dict(self.params.items())

    def _clear_cached_op(self) -> None:
        self._cached_op = None

    def cast(self, dtype: Any) -> None:
        """Changes the element type of all parameters; those of BatchNorm stay float32 where others get 16 bits."""
        super().cast(dtype)
        if dtypes.name(dtypes.code(dtype, "[SymbolBlock] cast")) not in ("float16", "bfloat16"):
            return
        for variance, mean in _STATISTICS:
            for name in [each for each in self.params if each.endswith(variance)]:
                prefix = name.removesuffix(variance)
                own = [prefix + each for each in (variance, mean, "gamma", "beta")]
                if all(each in self.params for each in own):
                    for each in own:
                        self.params[each].cast("float32")

    def reset_ctx(self, ctx: Contexts) -> None:
        """Moves all parameters to other contexts."""
        self.params.reset_ctx(ctx)


def _refuse_unnamed(
    graph: Symbol, names: Sequence[str], params: ParameterDict, saved: Mapping[str, Any], path: str
) -> None:
    """Tells of variables that are in neither the file nor `input_names`, which has names of none."""
    known = graph.list_inputs()
    strange = [name for name in names if name not in known]
    found = {name.removeprefix("arg:").removeprefix("aux:") for name in saved}
    lacking = [name for name in params if name not in found]
    if lacking and (strange or not names):
        raise RefusedError(
            f"[SymbolBlock] imports: input_names: {brief(names) or 'none'} given, but file {path} has no values of "
            f"{brief(lacking)}: if that is an input of the graph, name it"
        )


def _refuse_sparse(graph: Symbol) -> None:
    for node in graph.nodes:
        if node.is_variable and (kind := storage_type(node.attrs)) != "default":
            raise ArgumentError(
                f"[SymbolBlock] {node.name!r}: expected storage type 'default', got {kind!r}; arrays are dense"
            )


def _types(variables: Sequence[Symbol], graph: Symbol) -> dict[str, Any]:
    """Element types of variables, as far as the inputs tell them."""
    given: dict[str, Any] = {}
    for each in variables:
        known = each.infer_type()[0]
        if not known:
            return {}
        given[str(each.name)] = known[0]
    names = set(graph.list_inputs())
    try:
        arguments, _, auxiliary = graph.infer_type(**{k: v for k, v in given.items() if k in names})
    except MXNetError:
        return {}
    if arguments is None or auxiliary is None:
        return {}
    found = dict(zip(graph.list_arguments(), arguments, strict=True))
    found.update(zip(graph.list_auxiliary_states(), auxiliary, strict=True))
    return found
