# SPDX-License-Identifier: Apache-2.0
"""Files of blocks: parameters by structure, and graphs that were traced. MXNet reads and writes the same."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError, FileFormatError
from mx_core.files import atomic_write, read_bytes
from mx_gluon.errors import RefusedError
from mx_gluon.parameter import Parameter
from mx_gluon.parameter.filling import Contexts
from mx_gluon.parameter.loading import brief, load_all
from mx_ndarray import nd

if TYPE_CHECKING:
    from mx_gluon.block.block import Block
    from mx_gluon.block.hybrid_block import HybridBlock

Path = str | os.PathLike[str]


def by_structure(block: Block, prefix: str = "") -> dict[str, Parameter]:
    """Parameters by attribute names, such as `features.0.weight`; one that is shared has several."""
    if prefix:
        prefix += "."
    found = {prefix + name: param for name, param in block._reg_params.items()}
    for name, child in block._children.items():
        found.update(child._collect_params_with_prefix(prefix + name))
    return found


def save_parameters(block: Block, path: Path, deduplicate: bool) -> None:
    """Writes the values of all parameters; see `Block.save_parameters`."""
    params = block._collect_params_with_prefix()
    if deduplicate:
        last = {param: name for name, param in params.items()}
        params = {name: param for param, name in last.items()}
    nd.save(path, {name: param._reduce() for name, param in params.items()})


def load_parameters(
    block: Block,
    path: Path,
    ctx: Contexts,
    allow_missing: bool,
    ignore_extra: bool,
    cast_dtype: bool,
    dtype_source: str,
) -> None:
    """Reads values of parameters; see `Block.load_parameters`."""
    loaded = nd.load(path)
    params = block._collect_params_with_prefix()
    if not loaded and not params:
        return
    if not isinstance(loaded, Mapping):
        raise FileFormatError(f"{path}: expected named arrays, got a list of {len(loaded)}")
    if not any("." in name for name in loaded):  # names of parameters, as `ParameterDict.save` writes
        block.collect_params().load_dict(
            loaded, ctx, allow_missing, ignore_extra, block.prefix, str(path), cast_dtype, dtype_source
        )
        return
    if not allow_missing:
        present = {id(param) for name, param in params.items() if name in loaded}
        missing = [name for name, param in params.items() if id(param) not in present]
        if missing:
            raise RefusedError(
                f"[{block.name}] load_parameters: file {path} lacks {brief(missing)}; it has {brief(loaded)}; "
                "allow_missing=True leaves them as they are"
            )
    extra = [name for name in loaded if name not in params]
    if extra and not ignore_extra:
        raise ArgumentError(
            f"[{block.name}] load_parameters: file {path} has {brief(extra)}, which are not parameters here; these "
            f"are {brief(params)}; ignore_extra=True leaves them out"
        )
    values = [(params[name], value) for name, value in loaded.items() if name in params]
    load_all(values, ctx, cast_dtype, dtype_source)


def export(block: HybridBlock, path: str, epoch: int, remove_amp_cast: bool) -> None:
    """Writes the traced graph and its parameters; see `HybridBlock.export`."""
    graph = block._get_graph()[1]
    graph.save(f"{path}-symbol.json", remove_amp_cast=remove_amp_cast)
    params = block._graph_parameters()
    auxiliary = set(graph.list_auxiliary_states())
    named = {
        f"{'aux' if name in auxiliary else 'arg'}:{name}": params[name]._reduce()
        for name in graph.list_inputs()
        if name in params
    }
    nd.save(f"{path}-{epoch:04d}.params", named)


def save_model(block: Block, prefix: str) -> None:
    """Writes `prefix-model.json` and `prefix-model.params`; see `Block.save`."""
    described: dict[str, Any] = {}
    _describe(block, [0], described)
    with atomic_write(f"{prefix}-model.json") as file:
        file.write(json.dumps(described).encode())
    block.save_parameters(f"{prefix}-model.params")


def _describe(block: Block, index: list[int], into: dict[str, Any]) -> None:
    model: dict[str, Any] = {"orig_name": block.name, **block._described_graph()}
    into[f"{type(block).__name__.lower()}{index[0]}"] = model
    names: dict[str, str] = {}
    model["children"] = names
    for name, child in block._children.items():
        index[0] += 1
        names[child.name] = name
        _describe(child, index, model)


def load_model(block: Block, prefix: str) -> None:
    """Reads what `save_model` wrote; see `Block.load`."""
    path = f"{prefix}-model.json"
    with _as_it_was_if_refused(block):
        try:
            described = json.loads(read_bytes(path))
            _restore(block, [0], described, set())
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise FileFormatError(f"{path}: no description of a {type(block).__name__}: {error!r}") from error
        block.load_parameters(f"{prefix}-model.params")


@contextmanager
def _as_it_was_if_refused(block: Block) -> Iterator[None]:
    """After an exception gives names, graphs and the order of blocks back."""
    blocks: list[Block] = []
    block.apply(blocks.append)
    before = [(each, dict(vars(each)), dict(each.params._params)) for each in blocks]
    names = [(param, param.name, param._var) for _, _, own in before for param in own.values()]
    try:
        yield
    except BaseException:
        for each, attributes, own in before:
            vars(each).update(attributes)
            each.params._params.clear()
            each.params._params.update(own)
        for param, name, variable in names:
            param.name, param._var = name, variable
        raise


def _restore(block: Block, index: list[int], described: Mapping[str, Any], named: set[Parameter]) -> None:
    """Gives blocks and parameters their saved names; a parameter that is shared has that of its first block."""
    model = described[f"{type(block).__name__.lower()}{index[0]}"]
    block._name = model["orig_name"]
    block._take_graph(model)
    own = block.params._params
    for name in list(own):
        param = own.pop(name)
        if param not in named:
            param._rename(f"{block.name}_{name[len(block.params.prefix) :]}")
            named.add(param)
        own[param.name] = param
    for child in block._children.values():
        index[0] += 1
        _restore(child, index, model, named)
    block._children = {model["children"][child.name]: child for child in block._children.values()}


def warn_of_old_name(old: str, new: str) -> None:
    """Warns the caller's caller of a method that has a newer one."""
    warnings.warn(f"[Block] {old} is deprecated; use {new}", stacklevel=3)
