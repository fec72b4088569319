# SPDX-License-Identifier: Apache-2.0
"""Memory plans drawn, for the page on memory."""

from __future__ import annotations

import sys
from pathlib import Path

NAMES = ("resnet18", "resnet18_budget")


def write(target: Path, root: Path) -> None:
    """The training step of ResNet-18, batch 32: as planned, and in half the memory."""
    sys.path.insert(0, str(root / "packages" / "mx-symbol" / "benchmarks"))
    from networks import IMAGE_NETWORKS

    from mx_symbol.bound_graph import build
    from mx_symbol.recompute import fit_budget
    from mx_symbol.schedule import make_schedule

    net = IMAGE_NETWORKS["resnet18_v1"]()
    requests = {name: "write" for name in net.list_arguments() if name != "data"}
    graph = build(net.entries, {"data": (32, 3, 224, 224)}, {}, requests)
    plan = make_schedule(graph, True).plan
    tight = make_schedule(fit_budget(graph, plan.total_bytes // 2).graph, True).plan
    for name, drawn in zip(NAMES, (plan, tight), strict=True):
        (target / f"{name}.svg").write_text(drawn.to_svg())
