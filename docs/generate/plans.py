# SPDX-License-Identifier: Apache-2.0
"""Memory plans drawn, for the page on memory."""

from __future__ import annotations

import sys
from pathlib import Path

TRAINING = ("resnet18", "resnet18_budget")
MODES = ("least_memory", "most_parallel")
NAMES = (*TRAINING, *(f"towers_{mode}" for mode in MODES))


def write(target: Path, root: Path) -> None:
    """All pictures of the page."""
    sys.path.insert(0, str(root / "packages" / "mx-symbol" / "benchmarks"))
    _training(target)
    _branches(target)


def _branches(target: Path) -> None:
    """Four towers side by side, in both modes."""
    from bench_branches import towers

    from mx_symbol.bound_graph import build
    from mx_symbol.planning import Planning
    from mx_symbol.schedule import make_schedule

    net = towers(4, 6, 256)
    for mode in MODES:
        graph = build(net.entries, {"data": (16, 64)}, {}, {}, planning=Planning(mode, "always", 4))
        (target / f"towers_{mode}.svg").write_text(make_schedule(graph, False).plan.to_svg())


def _training(target: Path) -> None:
    """The training step of ResNet-18, batch 32: as planned, and in half the memory."""
    from networks import IMAGE_NETWORKS

    from mx_symbol.bound_graph import build
    from mx_symbol.recompute import fit_budget
    from mx_symbol.schedule import make_schedule

    net = IMAGE_NETWORKS["resnet18_v1"]()
    requests = {name: "write" for name in net.list_arguments() if name != "data"}
    graph = build(net.entries, {"data": (32, 3, 224, 224)}, {}, requests)
    plan = make_schedule(graph, True).plan
    tight = make_schedule(fit_budget(graph, plan.total_bytes // 2).graph, True).plan
    for name, drawn in zip(TRAINING, (plan, tight), strict=True):
        (target / f"{name}.svg").write_text(drawn.to_svg())
