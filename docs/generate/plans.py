# SPDX-License-Identifier: Apache-2.0
"""Memory plans and graphs drawn, for the pages on memory and on graphs."""

from __future__ import annotations

from pathlib import Path

TRAINING = ("resnet18", "resnet18_budget")
MODES = ("least_memory", "most_parallel")
GRAPHS = ("block_bound", "block_inference")
NAMES = (*TRAINING, *(f"towers_{mode}" for mode in MODES), *GRAPHS)


def write(target: Path, root: Path) -> None:
    """All pictures of the page."""
    _training(target)
    _branches(target)
    for name, text in _block().items():
        (target / f"{name}.svg").write_text(text)


def _branches(target: Path) -> None:
    """Four towers side by side, in both modes."""
    from mx_symbol.graph.planning import Planning
    from mx_symbol.memory.schedule import make_schedule
    from mx_symbol.passes.bound_graph import build
    from mx_symbol.testing.networks import towers

    net = towers(4, 6, 256)
    for mode in MODES:
        graph = build(net.entries, {"data": (16, 64)}, {}, {}, planning=Planning(mode, "always", 4))
        (target / f"towers_{mode}.svg").write_text(make_schedule(graph, False).plan.to_svg())


def _training(target: Path) -> None:
    """The training step of ResNet-18, batch 32: as planned, and in half the memory."""
    from mx_symbol.memory.recompute import fit_budget
    from mx_symbol.memory.schedule import make_schedule
    from mx_symbol.passes.bound_graph import build
    from mx_symbol.testing.networks import IMAGE_NETWORKS

    net = IMAGE_NETWORKS["resnet18_v1"]()
    requests = {name: "write" for name in net.list_arguments() if name != "data"}
    graph = build(net.entries, {"data": (32, 3, 224, 224)}, {}, requests)
    plan = make_schedule(graph, True).plan
    tight = make_schedule(fit_budget(graph, plan.total_bytes // 2).graph, True).plan
    for name, drawn in zip(TRAINING, (plan, tight), strict=True):
        (target / f"{name}.svg").write_text(drawn.to_svg())


def _block() -> dict[str, str]:
    """A layer and a residual block behind it: as bound, and as inference runs them."""
    from mx_symbol import sym
    from mx_symbol.graph import show
    from mx_symbol.passes import stages

    stem = sym.Convolution(sym.Variable("data"), num_filter=16, kernel=(3, 3), name="stem")
    made = sym.Convolution(stem, num_filter=16, kernel=(3, 3), pad=(1, 1), no_bias=True, name="conv")
    made = sym.BatchNorm(made, fix_gamma=False, name="norm")
    made = sym.Activation(made + stem, act_type="relu", name="relu")
    traced = list(stages.trace(made, {"data": (1, 3, 28, 28)}))
    return dict(zip(GRAPHS, (show.svg(traced[0].before), show.svg(traced[-1].after)), strict=True))
