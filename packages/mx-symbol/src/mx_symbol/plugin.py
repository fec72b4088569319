# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-symbol: its graph passes and the command `mx graph`."""

from __future__ import annotations

from mx_core.plugins.hookspecs import PluginInfo, hookimpl
from mx_core.plugins.registrars import CommandRegistrar, GraphPassRegistrar

MX_PLUGIN = PluginInfo(
    summary="symbolic graphs, their optimisation and execution",
    variables={
        "MX_BRANCHES": "auto (default), always or never: branches of a graph run side by side",
        "MX_MEMORY_MODE": "least_memory (default) or most_parallel: what may share memory",
        "MX_PASSES": "which graph passes run: '-fuse,-cse' leaves two out, 'none' runs none",
        "MXNET_BACKWARD_DO_MIRROR": "1: cheap nodes run again in backward, to save memory",
        "MXNET_EXEC_BULK_EXEC_INFERENCE": "0: inference pushes node by node",
        "MXNET_EXEC_BULK_EXEC_TRAIN": "0: training pushes node by node",
        "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN": "most nodes that training pushes at once; no limit by default",
        "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_FWD": "the same, of the forward pass alone",
        "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_BWD": "the same, of the backward pass alone",
    },
)
MX_HOOK_API = (1, 0)


@hookimpl
def mx_register_graph_passes(registry: GraphPassRegistrar) -> None:
    """The passes of `mx_symbol.passes`."""
    here = "mx_symbol.passes"
    registry.add("amp", "graph", f"{here}.mixed_precision:mixed_precision", before=("simplify",))
    registry.add("simplify", "graph", f"{here}.simplify:simplify")
    registry.add("cse", "graph", f"{here}.subexpressions:common_subexpressions", after=("simplify",))
    registry.add("constants", "graph", f"{here}.constants:fold_constants", after=("simplify", "cse"))
    registry.add(
        "prepare-casts", "inference", f"{here}.mixed_precision:prepare_casts", before=("channels-last",)
    )
    registry.add("no-gradients", "inference", f"{here}.simplify:without_gradients")
    registry.add(
        "strides",
        "inference",
        f"{here}.strides:move_strides",
        after=("no-gradients",),
        before=("batch-norm",),
    )
    registry.add(
        "batch-norm", "inference", f"{here}.batch_norm:fold_batch_norm",
        after=("no-gradients", "prepare-casts"), before=("channels-last",),
    )  # fmt: skip
    registry.add("channels-last", "inference", f"{here}.channels_last:channels_last")
    registry.add("attention", "inference", f"{here}.attention:fuse_attention", before=("layers",))
    registry.add(
        "layers", "inference", f"{here}.layer_fusion:fuse_layers", after=("batch-norm", "channels-last")
    )
    registry.add(
        "bfloat16", "inference", f"{here}.bfloat16:bfloat16", after=("layers",), before=("pack-weights",)
    )
    registry.add(
        "channels-last-training", "program", f"{here}.channels_last:channels_last_training",
        before=("cse-program", "fuse"),
    )  # fmt: skip
    registry.add("cse-program", "program", f"{here}.subexpressions:common_subexpressions", before=("fuse",))
    registry.add(
        "picked-softmax", "program", f"{here}.picked_softmax:fuse_picked_softmax",
        after=("cse-program",), before=("fuse",),
    )  # fmt: skip
    registry.add(
        "attention-training", "program", f"{here}.attention_training:fuse_attention_training",
        after=("cse-program",), before=("fuse",),
    )  # fmt: skip
    registry.add("fuse", "program", f"{here}.elementwise_fusion:fuse")


@hookimpl
def mx_register_commands(registry: CommandRegistrar) -> None:
    """`mx graph`."""
    registry.add("graph", "mx_symbol.command:graph")


@hookimpl
def mx_read_graph(graph: str) -> object:
    """A symbol from JSON text."""
    from mx_symbol.serialization.json_reader import load_json

    return load_json(graph)


@hookimpl
def mx_stub_modules() -> dict[str, str]:
    """`mx.sym` and what is in it."""
    return {"mx_symbol.sym": "mx_symbol.symbol:Symbol"}
